// Checks workflows and actions with GitHub's own parser, and prints JSON with its messages for each file, the scripts
// of all steps, and the actions that they use.
//
// esbuild bundles this, because the parser imports JSON in a way that only bundlers support.
import { readFileSync } from "node:fs";
import { convertWorkflowTemplate, NoOperationTraceWriter, parseWorkflow } from "@actions/workflow-parser";
import { parseAction } from "@actions/workflow-parser/actions/action-parser";
import { parse } from "yaml";

async function check(name) {
    const content = readFileSync(name, "utf8");
    const isAction = /(^|\/)action\.ya?ml$/.test(name);
    const parsed = (isAction ? parseAction : parseWorkflow)({ name, content }, new NoOperationTraceWriter());
    if (!isAction && parsed.value) await convertWorkflowTemplate(parsed.context, parsed.value);
    const errors = parsed.context.errors.getErrors().map((error) => error.message);
    const document = parse(content);
    const jobs = isAction ? [["action", document.runs]] : Object.entries(document.jobs);
    const steps = jobs.flatMap(([, job]) => job.steps);
    return {
        errors,
        scripts: steps.flatMap((step) => (step.run === undefined ? [] : [step.run])),
        uses: steps.flatMap((step) => (step.uses === undefined ? [] : [step.uses])),
        persists: steps.some((step) => step.uses?.startsWith("actions/checkout@") && step.with?.["persist-credentials"] !== false),
        permissions: document.permissions ?? null,
        writes: jobs.filter(([, job]) => Object.values(job.permissions ?? {}).includes("write")).map(([job]) => job),
        targets: jobs.flatMap(([, job]) => job.strategy?.matrix.include?.map((entry) => entry.target) ?? []),
    };
}

async function main() {
    const results = {};
    for (const name of process.argv.slice(2)) results[name] = await check(name);
    console.log(JSON.stringify(results));
}

main();
