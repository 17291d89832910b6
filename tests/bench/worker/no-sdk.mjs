// Replaces `@cloudflare/sandbox` to measure the size of an upload without it.

export class Sandbox {}
export class ContainerProxy {}
