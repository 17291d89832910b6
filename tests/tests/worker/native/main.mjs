// Runs every case on the class with koze's guest, as `koze build` generates it: `node main.mjs PROJECT GUEST [PART OF A
// NAME]`, where GUEST is the program. Prints a line of JSON with the number of cases, `{ planned }`, and one for each
// result, `{ name, error? }`.

import { play } from "../sdk/play.mjs";
import { Stage } from "../sdk/stage.mjs";
import { cases, lives } from "./cases.mjs";
import { NativeEngine } from "./engine.mjs";

const [project, guest, only] = process.argv.slice(2);
const stage = await Stage.open(project, [], (modules) => new NativeEngine(modules, guest));
await play(stage, { cases, lives, mutations: [], only });
