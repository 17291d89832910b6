// Runs in the page, in an isolated world: it shares the document with the scripts of the page, but none of their functions.
async function (input) {
  const { action, selector, wait, limit } = input;

  const failed = (code, message) => ({ code, message });
  const pause = () => new Promise((done) => setTimeout(done, 50));
  const shown = (text) => (text.length > 100 ? `${text.slice(0, 100)}…` : text);
  const named = (element) => {
    const id = element.id ? `#${element.id}` : '';
    const classes = [...element.classList].slice(0, 3).map((name) => `.${name}`).join('');
    return shown(`<${element.localName}${id}${classes}>`);
  };

  const isVisible = (element) => {
    const { width, height } = element.getBoundingClientRect();
    return width > 0 && height > 0 && getComputedStyle(element).visibility === 'visible';
  };
  // Returns the first of the elements that can be used.
  const first = (list, wanted) => {
    for (let at = 0; at < Math.min(list.length, 1000); at++) if (wanted(list[at])) return list[at];
    return null;
  };

  // Waits for the element. Returns the result of `ready` for it, or why there is none.
  const find = async (wanted, ready) => {
    const until = performance.now() + wait;
    for (;;) {
      let all;
      try {
        all = document.querySelectorAll(selector);
      } catch {
        return failed('invalid_input', 'this is not a valid CSS selector');
      }
      const element = first(all, wanted);
      const found = element ? ready(element) : undefined;
      if (found && !found.code) return found;
      if (performance.now() >= until) {
        if (found) return found;
        if (all.length === 0) return failed('not_found', 'no element of the page matches');
        return failed('not_found', `${named(all[0])} matches, but is not visible`);
      }
      await pause();
    }
  };

  const isDisabled = (element) => element.matches(':disabled') || element.getAttribute('aria-disabled') === 'true';
  const into = (element) => element.scrollIntoView({ block: 'center', inline: 'center', behavior: 'instant' });

  // There is only one page, so links and forms must open in it.
  const stay = (element) => {
    const form = element.form ?? element.closest('form');
    for (const one of [element.closest('a[target], area[target]'), form]) if (one?.target) one.target = '_self';
    if (element.formTarget) element.formTarget = '_self';
  };

  const click = (element) => {
    if (isDisabled(element)) return failed('unavailable', `${named(element)} is disabled`);
    into(element);
    const box = first(element.getClientRects(), ({ width, height }) => width > 0 && height > 0);
    if (!box) return failed('not_found', `${named(element)} has no area`);
    const middle = (from, to, most) => (Math.max(from, 0) + Math.min(to, most)) / 2;
    const [x, y] = [middle(box.left, box.right, innerWidth), middle(box.top, box.bottom, innerHeight)];
    const hit = element.getRootNode().elementFromPoint(x, y);
    if (!hit) return failed('unavailable', `${named(element)} is outside of the page`);
    if (!element.contains(hit) && hit.closest('label')?.control !== element && !hit.shadowRoot?.contains(element)) {
      return failed('unavailable', `${named(hit)} covers ${named(element)}`);
    }
    stay(hit);
    stay(element);
    return { x, y };
  };

  const changed = (element) => {
    element.dispatchEvent(new Event('input', { bubbles: true }));
    element.dispatchEvent(new Event('change', { bubbles: true }));
    return { done: true };
  };
  const choose = (element) => {
    const all = [...element.options];
    const is = (option) => option.value === input.text || option.label.trim() === input.text.trim();
    const option = all.find(is);
    if (!option) {
      const labels = shown(all.map((one) => one.label.trim()).join(', '));
      return failed('invalid_input', `${named(element)} has no such option: it has ${labels}`);
    }
    option.selected = true;
    return changed(element);
  };
  const SET = ['color', 'date', 'datetime-local', 'month', 'range', 'time', 'week'];
  const NO_TEXT = ['button', 'checkbox', 'file', 'image', 'radio', 'reset', 'submit'];
  const type = (element) => {
    if (isDisabled(element)) return failed('unavailable', `${named(element)} is disabled`);
    const kind = element.localName;
    into(element);
    if (kind === 'select') return choose(element);
    if (kind === 'input' && NO_TEXT.includes(element.type)) {
      return failed('invalid_input', `${named(element)} has the type ${element.type}, which takes no text`);
    }
    if (!['input', 'textarea'].includes(kind) && !element.isContentEditable) {
      return failed('invalid_input', `${named(element)} takes no text`);
    }
    if (element.readOnly) return failed('unavailable', `${named(element)} is read-only`);
    if (kind === 'input' && SET.includes(element.type)) {
      element.value = input.text;
      if (element.value === input.text) return changed(element);
      return failed('invalid_input', `the text is not a valid value for the type ${element.type}`);
    }
    element.focus();
    const { activeElement } = element.getRootNode();
    if (activeElement !== element && !activeElement?.contains(element)) {
      return failed('unavailable', `${named(element)} does not take the focus`);
    }
    if (input.clear_first) {
      document.execCommand('selectAll');
      document.execCommand('delete');
    } else if (kind === 'input' || kind === 'textarea') {
      try {
        element.setSelectionRange(element.value.length, element.value.length);
      } catch {
        // Fields of some types have no selection.
      }
    } else {
      getSelection().selectAllChildren(element);
      getSelection().collapseToEnd();
    }
    stay(element);
    return { single: kind === 'input' };
  };

  const box = (element) => {
    into(element);
    const { left, top, width, height } = element.getBoundingClientRect();
    return { x: left + scrollX, y: top + scrollY, width, height };
  };

  const text = (value) => (value.length > limit ? { length: value.length } : { text: value });
  const visibleText = (element) => text(element.innerText ?? element.textContent ?? '');
  const html = (element) => text(input.outer ? element.outerHTML : element.innerHTML);
  const page = () => text(`${document.doctype ? `<!DOCTYPE ${document.doctype.name}>\n` : ''}${document.documentElement?.outerHTML ?? ''}`);

  const any = () => true;
  switch (action) {
    case 'click': return find(isVisible, click);
    case 'type': return find(isVisible, type);
    case 'box': return find(isVisible, box);
    case 'text': return selector === null ? visibleText(document.body ?? document.documentElement) : find(any, visibleText);
    case 'html': return selector === null ? page() : find(any, html);
    case 'about': return {
      url: location.href,
      title: document.title,
      status: performance.getEntriesByType('navigation')[0]?.responseStatus ?? 0,
    };
  }
}
