# The balancer with Spark and Java 17. From the repository's root:
#
#   docker build --file deploy/docker/balancer.Dockerfile --tag counterpoise-balancer:0.1.0 .
#   docker run --rm --volume history:/var/lib/counterpoise counterpoise-balancer:0.1.0 balance \
#       --admin-url http://broker-1:8080 --history /var/lib/counterpoise/history --metrics 0.0.0.0:9109
#
# Its root may be read only; it writes to /tmp and to the history alone.
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
RUN python -m venv /opt/counterpoise
RUN /opt/counterpoise/bin/pip install --no-cache-dir --constraint constraints.txt ".[pipeline]"

FROM python:3.11-slim-bookworm
RUN apt-get update && apt-get install --yes --no-install-recommends openjdk-17-jre-headless && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin counterpoise && install -d -o 10001 /var/lib/counterpoise
COPY --from=build /opt/counterpoise /opt/counterpoise
ENV PATH=/opt/counterpoise/bin:$PATH HOME=/tmp
USER 10001
VOLUME /var/lib/counterpoise
EXPOSE 9109
HEALTHCHECK --interval=30s --timeout=5s --start-period=120s CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:9109/health', timeout=4)"]
ENTRYPOINT ["counterpoise"]
CMD ["balance", "--help"]
