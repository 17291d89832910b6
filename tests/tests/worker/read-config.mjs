// Reads the wrangler configuration of the current directory as `wrangler deploy` does, for the top level and each
// environment, and prints what the test checks. wrangler's warnings go to standard error.

import wrangler from "wrangler";

const top = wrangler.unstable_readConfig({ env: "" });
const resolved = ["", ...(top.definedEnvironments ?? [])].map((environment) => {
  const config = wrangler.unstable_readConfig({ env: environment });
  return {
    environment,
    bindings: config.durable_objects.bindings,
    containers: config.containers ?? [],
    build: config.build.command,
  };
});
console.log(JSON.stringify(resolved));
