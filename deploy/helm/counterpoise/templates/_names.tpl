{{- define "counterpoise.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "counterpoise.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "counterpoise.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "counterpoise.selector" . }}
{{- end -}}

{{- define "counterpoise.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "counterpoise.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "counterpoise.image" -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}

{{- /* Not empty when Spark's executors are pods. */ -}}
{{- define "counterpoise.executorPods" -}}
{{- if hasPrefix "k8s://" .Values.spark.master -}}yes{{- end -}}
{{- end -}}

{{- /* One word of the command. Kubernetes replaces $(NAME) in a word, so each dollar is doubled. */ -}}
{{- define "counterpoise.word" -}}
- {{ . | toString | replace "$" "$$" | quote }}
{{- end -}}
