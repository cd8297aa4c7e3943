{{- /* The words after `counterpoise`, one item each: no value can become a second option. */ -}}
{{- define "counterpoise.args" -}}
{{- $v := .Values -}}
{{- $words := list "balance" -}}
{{- $words = append $words (printf "--admin-url=%s" (required "adminUrl: name the admin address of any broker, such as http://pulsar-broker:8080" $v.adminUrl)) -}}
{{- $words = append $words (printf "--history=%s" (default "/var/lib/counterpoise/history" $v.history.uri)) -}}
{{- $words = append $words (printf "--metrics=0.0.0.0:%d" (int $v.metrics.port)) -}}
{{- $words = append $words (printf "--retain-days=%d" (int $v.history.retainDays)) -}}
{{- $words = append $words (printf "--time-travel-days=%d" (int $v.history.timeTravelDays)) -}}
{{- $words = append $words (printf "--wait-for-history=%ds" (int $v.history.waitSeconds)) -}}
{{- $words = append $words (printf "--master=%s" $v.spark.master) -}}
{{- $words = append $words (printf "--shards=%d" (int $v.spark.shards)) -}}
{{- if $v.watchdog }}{{ $words = append $words "--watchdog" }}{{ end -}}
{{- if $v.execute }}{{ $words = append $words "--execute" }}{{ end -}}
{{- range $name, $value := dict "strategy" $v.strategy "placement" $v.placement "interval" $v.interval "decide-every" $v.decideEvery "grace-period" $v.gracePeriod "thrash-span" $v.thrashSpan -}}
{{- if $value }}{{ $words = append $words (printf "--%s=%s" $name $value) }}{{ end -}}
{{- end -}}
{{- if $v.conf }}{{ $words = append $words "--conf=/etc/counterpoise/conf/broker.conf" }}{{ end -}}
{{- range $name, $value := $v.settings }}{{ $words = append $words (printf "--set=%s=%s" $name $value) }}{{ end -}}
{{- $words = concat $words (include "counterpoise.ruleWords" . | fromJsonArray) -}}
{{- range $name, $value := $v.spark.conf }}{{ $words = append $words (printf "--spark-conf=%s=%s" $name $value) }}{{ end -}}
{{- $words = concat $words (include "counterpoise.accessWords" . | fromJsonArray) -}}
{{- if $v.notify.existingSecret -}}
{{- $words = append $words (printf "--notify-format=%s" $v.notify.format) -}}
{{- if $v.notify.link }}{{ $words = append $words (printf "--notify-link=%s" $v.notify.link) }}{{ end -}}
{{- if $v.notify.cluster }}{{ $words = append $words (printf "--notify-cluster=%s" $v.notify.cluster) }}{{ end -}}
{{- if $v.notify.signingKey }}{{ $words = append $words "--notify-secret-file=/etc/counterpoise/notify/key" }}{{ end -}}
{{- end -}}
{{- range concat $words $v.extraArgs }}
{{ include "counterpoise.word" . }}
{{- end }}
{{- if $v.notify.existingSecret }}
- "--notify=$(NOTIFY_URL)"
{{- end }}
{{- if include "counterpoise.executorPods" . }}
- "--spark-conf=spark.kubernetes.driver.pod.name=$(POD_NAME)"
{{- end }}
{{- end -}}

{{- define "counterpoise.ruleWords" -}}
{{- $rules := .Values.rules -}}
{{- $execute := .Values.execute -}}
{{- $words := list -}}
{{- range $name, $value := dict "max-moves-a-round" (int $rules.maxMovesARound) "max-moves-an-hour" (int $rules.maxMovesAnHour) "max-load-a-round" $rules.maxLoadARound "max-load-an-hour" $rules.maxLoadAnHour "max-unavailable-an-hour" $rules.maxUnavailableAnHour "window" $rules.window "leave-alone" (join "," $rules.leaveAlone) -}}
{{- if $value -}}
{{- if not $execute }}{{ fail (printf "rules: --%s changes nothing without execute: true" $name) }}{{ end -}}
{{- $words = append $words (printf "--%s=%v" $name $value) -}}
{{- end -}}
{{- end -}}
{{- toJson $words -}}
{{- end -}}

{{- /* Who the balancer is to the cluster, and where Spark runs. */ -}}
{{- define "counterpoise.accessWords" -}}
{{- $v := .Values -}}
{{- $words := list -}}
{{- if ne $v.auth.method "none" -}}
{{- $_ := required (printf "auth.existingSecret: method %s needs the Secret that has its credentials" $v.auth.method) $v.auth.existingSecret -}}
{{- $words = append $words (printf "--auth-plugin=%s" $v.auth.method) -}}
{{- if eq $v.auth.method "token" -}}
{{- $words = append $words "--auth-params=file:///etc/counterpoise/auth/token" -}}
{{- else -}}
{{- $words = append $words "--auth-params=tlsCertFile:/etc/counterpoise/auth/tls.crt,tlsKeyFile:/etc/counterpoise/auth/tls.key" -}}
{{- end -}}
{{- else if $v.auth.existingSecret -}}
{{- fail "auth.existingSecret: it is not used with method none; set auth.method to token or tls" -}}
{{- end -}}
{{- if $v.tls.existingSecret }}{{ $words = append $words "--tls-trust-cert-path=/etc/counterpoise/tls/ca.crt" }}{{ end -}}
{{- if $v.tls.verifyHostname }}{{ $words = append $words "--tls-enable-hostname-verification" }}{{ end -}}
{{- if and (not (hasPrefix "local" $v.spark.master)) (not $v.history.uri) -}}
{{- fail "history.uri: executors outside this pod cannot read its volume; name a bucket" -}}
{{- end -}}
{{- if include "counterpoise.executorPods" . -}}
{{- $image := required "spark.executorImage: a k8s:// master needs the image of the executors" $v.spark.executorImage -}}
{{- $s3 := $v.history.s3 -}}
{{- if $s3.existingSecret -}}
{{- $words = append $words (printf "--spark-conf=spark.kubernetes.executor.secretKeyRef.AWS_ACCESS_KEY_ID=%s:%s" $s3.existingSecret $s3.accessKeyKey) -}}
{{- $words = append $words (printf "--spark-conf=spark.kubernetes.executor.secretKeyRef.AWS_SECRET_ACCESS_KEY=%s:%s" $s3.existingSecret $s3.secretKeyKey) -}}
{{- end -}}
{{- if $s3.region }}{{ $words = append $words (printf "--spark-conf=spark.executorEnv.AWS_REGION=%s" $s3.region) }}{{ end -}}
{{- if $s3.endpointUrl }}{{ $words = append $words (printf "--spark-conf=spark.executorEnv.AWS_ENDPOINT_URL=%s" $s3.endpointUrl) }}{{ end -}}
{{- range $name, $value := dict "kubernetes.container.image" $image "kubernetes.namespace" .Release.Namespace "driver.host" (printf "%s-driver.%s.svc" (include "counterpoise.fullname" $) $.Release.Namespace) "driver.bindAddress" "0.0.0.0" "driver.port" "7078" "driver.blockManager.port" "7079" -}}
{{- if not (hasKey $v.spark.conf (printf "spark.%s" $name)) }}{{ $words = append $words (printf "--spark-conf=spark.%s=%s" $name $value) }}{{ end -}}
{{- end -}}
{{- else if $v.spark.executorImage -}}
{{- fail "spark.executorImage: it changes nothing without a k8s:// master" -}}
{{- end -}}
{{- toJson $words -}}
{{- end -}}
