// Written by `koze dev --local` for as long as it runs.
//
// The project's own entry with the class of each sandbox replaced: what a module declares itself comes before what it
// exports from elsewhere.

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
