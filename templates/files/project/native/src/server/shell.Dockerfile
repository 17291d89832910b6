# The image of the sandbox: add the programs that the agent needs. `koze build` adds koze's guest to it.
FROM node:24-trixie-slim

RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        ca-certificates curl git python3 python-is-python3 python3-pip python3-venv \
    && rm -rf /var/lib/apt/lists/*

# Lets pip install packages next to Debian's.
ENV PIP_BREAK_SYSTEM_PACKAGES=1
