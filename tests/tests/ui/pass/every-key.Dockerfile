FROM docker.io/cloudflare/sandbox:0.12.10
