/** Whether someone sees the page: neither in a hidden window, nor scrolled out of the chat. */

import { Store } from "../store";

const seen = new Store(false);
let isInView = false;

const update = () => seen.set(isInView && !document.hidden);

/** Starts to observe. */
export function watchSeen(): void {
  document.addEventListener("visibilitychange", update);
  const observer = new IntersectionObserver((entries) => {
    isInView = entries.at(-1)!.isIntersecting;
    update();
  });
  observer.observe(document.documentElement);
}

/** Waits until someone sees the page. */
export function whenSeen(): Promise<void> {
  if (seen.value) return Promise.resolve();
  return new Promise((resolve) => {
    const stop = seen.watch(() => {
      if (!seen.value) return;
      stop();
      resolve();
    });
  });
}
