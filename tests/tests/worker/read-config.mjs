// Reads the wrangler configurations of the directories in its arguments as `wrangler deploy` does, for the top level and
// each environment, and prints what the tests check, and wrangler's warnings.

import wrangler from "wrangler";

let warnings = "";
process.stderr.write = (text) => {
  warnings += text;
  return true;
};

const read = (directory) => {
  process.chdir(directory);
  warnings = "";
  const top = wrangler.unstable_readConfig({ env: "" });
  const environments = ["", ...(top.definedEnvironments ?? [])].map((environment) => {
    const config = wrangler.unstable_readConfig({ env: environment });
    return {
      environment,
      bindings: config.durable_objects.bindings,
      containers: config.containers ?? [],
      build: config.build.command,
    };
  });
  return { environments, warnings };
};
console.log(JSON.stringify(process.argv.slice(2).map(read)));
