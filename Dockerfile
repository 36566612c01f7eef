# Hookfast: the API, the worker and the command line in one image.
#
#   docker build -t hookfast:0.1.0 .
#   docker run --rm -p 127.0.0.1:8080:8080 -v hookfast:/var/lib/hookfast hookfast:0.1.0
#
# The second is `hookfast up`: everything in one container, with SQLite and an embedded Temporal.
# `hookfast api` and `hookfast worker` are the parts of docker-compose.yml and deploy/kubernetes.

# The Python that the tests run on. Renew it with every release (`make images`): it is where the C
# libraries are.
ARG PYTHON_IMAGE=python:3.11.15-slim-bookworm@sha256:d29f48a31a8b408ed19272ca1e7b10ebae13b240a27e862d3d4217c528e2e0c3

FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/hookfast
WORKDIR /src
# The dependencies first: they change less often than the code. Only wheels, checked by their
# hashes: nothing is compiled, and no package runs a script here.
COPY requirements.txt ./
RUN /opt/hookfast/bin/pip install --require-hashes --only-binary :all: -r requirements.txt
COPY . .
RUN /opt/hookfast/bin/pip install --no-deps --no-build-isolation . \
    && /opt/hookfast/bin/hookfast version

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="Hookfast" \
      org.opencontainers.image.description="Durable webhooks on Temporal" \
      org.opencontainers.image.version="0.1.0"
RUN groupadd --gid 10001 hookfast \
    && useradd --uid 10001 --gid 10001 --home-dir /var/lib/hookfast --create-home \
               --shell /usr/sbin/nologin hookfast
COPY --from=build /opt/hookfast /opt/hookfast
ENV PATH=/opt/hookfast/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOOKFAST_HOME=/var/lib/hookfast \
    HOOKFAST_HOST=0.0.0.0
# The root file system may be read-only: what is written is written here, and in /tmp.
WORKDIR /var/lib/hookfast
USER 10001:10001
# The API (and everything, in `up`); a worker's metrics.
EXPOSE 8080 9464
# Of `up` and `api`; whoever runs another command says what its health is.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["python", "-c", "import urllib.request as web; web.urlopen('http://127.0.0.1:8080/healthz', timeout=4)"]
# The exec form: SIGTERM reaches Hookfast itself, which drains. Run it with an init (`docker run
# --init`, `init: true`) so that nothing that dies stays as a zombie.
STOPSIGNAL SIGTERM
ENTRYPOINT ["hookfast"]
CMD ["up"]
