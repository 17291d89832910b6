/** Signs in with the token of the URL, and starts the page. */

import { render } from "preact";
import { signIn } from "./api";
import { App } from "./app";
import { connection } from "./connection";
import { parse, route } from "./route";

async function start(): Promise<void> {
  const token = /^#token=([0-9a-f]+)$/.exec(location.hash)?.[1];
  if (token !== undefined) {
    // Neither the history nor a copied URL keeps the token.
    history.replaceState(null, "", "/#/");
    route.set(parse(location.hash));
    await signIn(token).catch(() => connection.set("signed-out"));
  }
  render(<App />, document.getElementById("app")!);
}

void start();
