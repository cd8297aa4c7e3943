# A cluster of three brokers to test with, without a JVM. From the repository's root:
#
#   docker build --file deploy/docker/cluster.Dockerfile --tag counterpoise-cluster .
#   docker run --rm --publish 6650-6652:6650-6652 --publish 8080-8082:8080-8082 counterpoise-cluster
#
# Clients reach each broker by the address that it gives them: publish the ports under the same
# numbers, and set ADVERTISED_ADDRESS to the name by which clients find this container.
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
RUN python -m venv /opt/counterpoise
RUN /opt/counterpoise/bin/pip install --no-cache-dir --constraint constraints.txt .
# What only an installation needs, and tests of packages.
RUN /opt/counterpoise/bin/pip uninstall --yes setuptools pip && find /opt/counterpoise -depth -type d -name tests -exec rm -r {} +

FROM python:3.11-slim-bookworm
RUN useradd --uid 10001 --create-home --shell /usr/sbin/nologin counterpoise
COPY --from=build /opt/counterpoise /opt/counterpoise
ENV PATH=/opt/counterpoise/bin:$PATH ADVERTISED_ADDRESS=localhost
USER 10001
EXPOSE 6650-6652 8080-8082
HEALTHCHECK --interval=5s --timeout=3s --start-period=10s CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/admin/v2/brokers/health', timeout=2)"]
ENTRYPOINT ["sh", "-c", "exec counterpoise up --brokers 3 --port 6650 --web-port 8080 --faults --set bindAddress=0.0.0.0 --set advertisedAddress=\"$ADVERTISED_ADDRESS\" \"$@\"", "counterpoise"]
