// Written by `koze dev --local`, and deleted when it exits.
//
// Wraps the project's own entry point and replaces the class of each sandbox: a module's own declarations take
// precedence over `export *`.

//#region sandboxes
import { KozeSandbox as KozeBase } from "./local.mjs";
//#endregion
//#region scripts
import { KozeScripts as KozeScriptsBase } from "__KOZE_MAIN__";
import { fetched as kozeFetched } from "./local.mjs";
//#endregion
//#region browser
import { browsing as kozeBrowsing, closeBrowser as kozeCloseBrowser } from "./local.mjs";
//#endregion

export { default } from "__KOZE_MAIN__";
export * from "__KOZE_MAIN__";
//#region class

export class __KOZE_CLASS__ extends KozeBase {
  /**
   * @param {ConstructorParameters<typeof KozeBase>[0]} ctx
   * @param {ConstructorParameters<typeof KozeBase>[1]} env
   */
  constructor(ctx, env) {
    super(ctx, env, "__KOZE_CLASS__");
  }
}
//#endregion
//#region scripts

/** The scripts of agents, whose requests leave from this machine. */
export class KozeScripts extends KozeScriptsBase {
  /** @param {string} sent @param {() => Promise<unknown>} left @override */
  kozeFetch(sent, left) {
    return kozeFetched(/** @type {import("./local.mjs").Env} */ (this.env).KOZE_LOCAL, sent, left);
  }
  //#region browser

  /** @param {Request} request @override */
  fetch(request) {
    return kozeBrowsing(/** @type {import("./local.mjs").Env} */ (this.env).KOZE_LOCAL, this.ctx.id, request);
  }

  /** @override */
  kozeCloseBrowser() {
    return kozeCloseBrowser(/** @type {import("./local.mjs").Env} */ (this.env).KOZE_LOCAL, this.ctx.id);
  }
  //#endregion
}
//#endregion
