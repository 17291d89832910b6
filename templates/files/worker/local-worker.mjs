// Written by `koze dev --local`, and deleted when it exits.
//
// Wraps the project's own entry point and replaces the class of each sandbox: a module's own declarations take
// precedence over `export *`.

import { KozeSandbox as KozeBase } from "./local.mjs";

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
