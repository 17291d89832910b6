// Stands in for `@cloudflare/sandbox` where the size of an upload is told without it.

export class Sandbox {}
export class ContainerProxy {}
