/**
 * Style sheets that a library writes. The policy of the page forbids `<style>` elements, so `build.mjs` lets xterm.js create this element
 * in their place: its text becomes a constructed style sheet, which can contain nothing but rules.
 */

class SheetElement extends HTMLElement {
  private readonly constructed = new CSSStyleSheet();

  override set textContent(text: string) {
    this.constructed.replaceSync(text);
  }

  connectedCallback(): void {
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, this.constructed];
  }

  disconnectedCallback(): void {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => sheet !== this.constructed);
  }
}

/** Defines the element. Its name is in `build.mjs`, too. */
export function defineSheet(): void {
  if (customElements.get("koze-sheet") === undefined) customElements.define("koze-sheet", SheetElement);
}
