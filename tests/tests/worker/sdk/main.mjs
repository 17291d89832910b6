// Runs every case on the class as `koze build` generates it, and for each mutation the case that must fail: `node
// main.mjs PROJECT [PART OF A NAME]`. `play.mjs` describes the output.

import { cases, lives } from "./cases.mjs";
import { mutations } from "./mutations.mjs";
import { play } from "./play.mjs";
import { Stage } from "./stage.mjs";
import { pitfalls } from "./pitfalls.mjs";

const [project, only] = process.argv.slice(2);
await play(await Stage.open(project, mutations), { cases, lives: { ...lives, ...pitfalls }, mutations, only });
