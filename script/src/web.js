// The globals of the web that a script has, as far as they need no host, or only its clock, its random numbers and its URLs. Runs before
// the script, so no built-in function has been replaced yet. Returns what the other globals use.
(function (host) {
  'use strict';
  const { define, encodeUtf8, decodeUtf8, resolveUrl, randomBytes, now, setTimer, clearTimer } = host;
  const { parse, stringify } = JSON;
  const { defineProperty, entries, keys } = Object;
  const { isView } = ArrayBuffer;
  const { apply } = Reflect;

  // --- Text and bytes

  const bytesOf = (input, what) => {
    if (isView(input)) return new Uint8Array(input.buffer, input.byteOffset, input.byteLength);
    if (input instanceof ArrayBuffer) return new Uint8Array(input);
    throw new TypeError(`${what} must be an ArrayBuffer or a view of one`);
  };

  define('TextEncoder', class TextEncoder {
    get encoding() { return 'utf-8'; }
    encode(text = '') { return encodeUtf8(`${text}`.toWellFormed()); }
    encodeInto(text, target) {
      let [read, written] = [0, 0];
      for (const char of `${text}`) {
        const bytes = encodeUtf8(char.toWellFormed());
        if (written + bytes.length > target.length) break;
        target.set(bytes, written);
        read += char.length;
        written += bytes.length;
      }
      return { read, written };
    }
  });

  // Returns how many bytes at the end are the beginning of a character.
  const unfinished = (bytes) => {
    for (let back = 1; back <= 3 && back <= bytes.length; back++) {
      const byte = bytes[bytes.length - back];
      if (byte >= 0xc0) return back < (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2) ? back : 0;
      if (byte < 0x80) return 0;
    }
    return 0;
  };
  define('TextDecoder', class TextDecoder {
    #fatal;
    #keepsMark;
    #held = new Uint8Array(0);
    #hasBegun = false;
    constructor(label = 'utf-8', { fatal = false, ignoreBOM = false } = {}) {
      if (!/^\s*(utf-?8|unicode-1-1-utf-8)\s*$/i.test(label)) {
        throw new RangeError(`TextDecoder knows the encoding utf-8 only, and not ${label}`);
      }
      [this.#fatal, this.#keepsMark] = [Boolean(fatal), Boolean(ignoreBOM)];
    }
    get encoding() { return 'utf-8'; }
    get fatal() { return this.#fatal; }
    get ignoreBOM() { return this.#keepsMark; }
    decode(input, { stream = false } = {}) {
      const given = input === undefined ? new Uint8Array(0) : bytesOf(input, 'the input');
      let bytes = new Uint8Array(this.#held.length + given.length);
      bytes.set(this.#held);
      bytes.set(given, this.#held.length);
      const end = bytes.length - (stream ? unfinished(bytes) : 0);
      this.#held = bytes.slice(end);
      bytes = bytes.subarray(0, end);
      const text = decodeUtf8(bytes, this.#fatal);
      if (text === undefined) throw new TypeError('the bytes are not valid UTF-8');
      const isStart = !this.#hasBegun;
      this.#hasBegun = stream && (this.#hasBegun || text !== '');
      return isStart && !this.#keepsMark && text.startsWith('\ufeff') ? text.slice(1) : text;
    }
  });

  // --- Random numbers and time

  const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  define('crypto', {
    getRandomValues(array) {
      if (!isView(array) || /^(DataView|Float)/.test(array[Symbol.toStringTag] ?? 'DataView')) {
        throw new TypeError('getRandomValues needs an array of integers, such as a Uint8Array');
      }
      if (array.byteLength > 65536) throw new DOMException('getRandomValues gives at most 65536 bytes', 'QuotaExceededError');
      bytesOf(array).set(randomBytes(array.byteLength));
      return array;
    },
    randomUUID() {
      const bytes = randomBytes(16);
      bytes[6] = (bytes[6] & 0x0f) | 0x40;
      bytes[8] = (bytes[8] & 0x3f) | 0x80;
      return hex(bytes).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
    },
  });
  define('performance', { now });

  // A timer of the host runs once. The number of an interval is that of its first timer.
  const intervals = new Map();
  define('setInterval', function setInterval(callback, delay = 0, ...args) {
    if (typeof callback !== 'function') throw new TypeError('setInterval needs a function: text is not run as code');
    const wait = Math.max(Number(delay) || 0, 1);
    const again = () => {
      intervals.set(id, setTimer(again, wait));
      callback(...args);
    };
    const id = setTimer(again, wait);
    intervals.set(id, id);
    return id;
  });
  const clear = (given) => {
    const id = Number(given) || 0;
    clearTimer(intervals.get(id) ?? id);
    intervals.delete(id);
  };
  define('clearTimeout', (id) => clear(id));
  define('clearInterval', (id) => clear(id));

  // --- Copies

  const OPAQUE = [Promise, WeakMap, WeakSet, WeakRef];
  const uncloneable = (value) => new DOMException(`${String(value)} cannot be cloned`, 'DataCloneError');
  const copy = (value, seen) => {
    if (typeof value === 'function' || typeof value === 'symbol') throw uncloneable(value);
    if (typeof value !== 'object' || value === null) return value;
    if (seen.has(value)) return seen.get(value);
    if (OPAQUE.some((type) => value instanceof type)) throw uncloneable(value);
    const made = (copied) => (seen.set(value, copied), copied);
    if (value instanceof Date) return made(new Date(value.getTime()));
    if (value instanceof RegExp) return made(new RegExp(value.source, value.flags));
    if (value instanceof ArrayBuffer) return made(value.slice(0));
    if (isView(value)) {
      const buffer = copy(value.buffer, seen);
      return made(new value.constructor(buffer, value.byteOffset, value.length ?? value.byteLength));
    }
    if (value instanceof Map) {
      const copied = made(new Map());
      for (const [key, item] of value) copied.set(copy(key, seen), copy(item, seen));
      return copied;
    }
    if (value instanceof Set) {
      const copied = made(new Set());
      for (const item of value) copied.add(copy(item, seen));
      return copied;
    }
    if (value instanceof Error) {
      const type = [EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError].find((one) => value instanceof one) ?? Error;
      const copied = made(new type(value.message));
      if ('cause' in value) copied.cause = copy(value.cause, seen);
      return copied;
    }
    const copied = made(Array.isArray(value) ? new Array(value.length) : {});
    for (const key of keys(value)) {
      defineProperty(copied, key, { value: copy(value[key], seen), writable: true, configurable: true, enumerable: true });
    }
    return copied;
  };
  define('structuredClone', function structuredClone(value) { return copy(value, new Map()); });

  // --- Cancellation

  let abort;
  let makeSignal;
  let isMaking = false;
  class AbortSignal {
    #aborted = false;
    #reason;
    #listeners = [];
    onabort = null;
    constructor() {
      if (!isMaking) throw new TypeError('use new AbortController().signal, AbortSignal.timeout or AbortSignal.any');
    }
    static {
      makeSignal = () => {
        isMaking = true;
        try {
          return new AbortSignal();
        } finally {
          isMaking = false;
        }
      };
      abort = (signal, reason = new DOMException('the operation was aborted', 'AbortError')) => {
        if (signal.#aborted) return;
        [signal.#aborted, signal.#reason] = [true, reason];
        const event = { type: 'abort', target: signal };
        if (typeof signal.onabort === 'function') signal.onabort(event);
        for (const listener of signal.#listeners.splice(0)) listener.call(signal, event);
      };
    }
    get aborted() { return this.#aborted; }
    get reason() { return this.#reason; }
    throwIfAborted() { if (this.#aborted) throw this.#reason; }
    addEventListener(type, listener) {
      if (type === 'abort' && typeof listener === 'function' && !this.#listeners.includes(listener)) this.#listeners.push(listener);
    }
    removeEventListener(type, listener) {
      if (type === 'abort') this.#listeners = this.#listeners.filter((one) => one !== listener);
    }
    static abort(reason) {
      const signal = makeSignal();
      abort(signal, reason);
      return signal;
    }
    static timeout(delay) {
      const signal = makeSignal();
      setTimer(() => abort(signal, new DOMException('the operation timed out', 'TimeoutError')), Number(delay) || 0);
      return signal;
    }
    static any(signals) {
      const signal = makeSignal();
      for (const one of signals) {
        if (one.aborted) abort(signal, one.reason);
        else one.addEventListener('abort', () => abort(signal, one.reason));
      }
      return signal;
    }
  }
  define('AbortSignal', AbortSignal);
  define('AbortController', class AbortController {
    #signal = makeSignal();
    get signal() { return this.#signal; }
    abort(reason) { abort(this.#signal, reason); }
  });

  // --- URLs

  const ESCAPES = { '!': '%21', "'": '%27', '(': '%28', ')': '%29', '~': '%7E', '%20': '+' };
  const escape = (text) => encodeURIComponent(text).replace(/%20|[!'()~]/g, (found) => ESCAPES[found]);
  // Byte by byte, because escapes are bytes, and need not be characters.
  const unescape = (text) => {
    const bytes = encodeUtf8(text.toWellFormed());
    let length = 0;
    for (let at = 0; at < bytes.length; at++) {
      const digits = bytes[at] === 0x25 ? String.fromCharCode(bytes[at + 1], bytes[at + 2]) : '';
      const isEscape = /^[0-9a-f]{2}$/i.test(digits);
      bytes[length++] = isEscape ? parseInt(digits, 16) : bytes[at] === 0x2b ? 0x20 : bytes[at];
      at += isEscape ? 2 : 0;
    }
    return decodeUtf8(bytes.subarray(0, length), false);
  };
  const pairs = (query) => {
    const found = [];
    for (const part of query.replace(/^\?/, '').split('&')) {
      if (part === '') continue;
      const at = part.indexOf('=');
      const [name, value] = at < 0 ? [part, ''] : [part.slice(0, at), part.slice(at + 1)];
      found.push([unescape(name), unescape(value)]);
    }
    return found;
  };
  const string = (value) => `${value}`.toWellFormed();

  let attach;
  class URLSearchParams {
    #list;
    #changed = () => {};
    constructor(init = '') {
      if (typeof init !== 'object' || init === null) this.#list = pairs(string(init));
      else if (init[Symbol.iterator]) this.#list = Array.from(init, ([name, value]) => [string(name), string(value)]);
      else this.#list = entries(init).map(([name, value]) => [string(name), string(value)]);
    }
    static {
      attach = (query, changed) => {
        const params = new URLSearchParams(query);
        params.#changed = changed;
        return { params, renew: (next) => { params.#list = pairs(next); } };
      };
    }
    get size() { return this.#list.length; }
    append(name, value) {
      this.#list.push([string(name), string(value)]);
      this.#changed(this.toString());
    }
    delete(name, value) {
      this.#list = this.#list.filter((pair) => pair[0] !== string(name) || (value !== undefined && pair[1] !== string(value)));
      this.#changed(this.toString());
    }
    get(name) { return this.#list.find((pair) => pair[0] === string(name))?.[1] ?? null; }
    getAll(name) { return this.#list.filter((pair) => pair[0] === string(name)).map((pair) => pair[1]); }
    has(name, value) {
      return this.#list.some((pair) => pair[0] === string(name) && (value === undefined || pair[1] === string(value)));
    }
    set(name, value) {
      const first = this.#list.findIndex((pair) => pair[0] === string(name));
      if (first < 0) return this.append(name, value);
      this.#list[first][1] = string(value);
      this.#list = this.#list.filter((pair, at) => at <= first || pair[0] !== string(name));
      this.#changed(this.toString());
    }
    sort() {
      this.#list.sort((one, other) => (one[0] < other[0] ? -1 : one[0] > other[0] ? 1 : 0));
      this.#changed(this.toString());
    }
    forEach(callback, self) { for (const [name, value] of this.#list) callback.call(self, value, name, this); }
    *entries() { for (const [name, value] of this.#list) yield [name, value]; }
    *keys() { for (const pair of this.#list) yield pair[0]; }
    *values() { for (const pair of this.#list) yield pair[1]; }
    [Symbol.iterator]() { return this.entries(); }
    toString() { return this.#list.map(([name, value]) => `${escape(name)}=${escape(value)}`).join('&'); }
  }
  define('URLSearchParams', URLSearchParams);

  // The host parses URLs, and this bounds its work.
  const LONGEST = 65536;
  // `change` is the name of a part, and its new value.
  const resolve = (url, base, change) => {
    const request = stringify([url, base ?? null, change ?? null]);
    if (request.length > LONGEST) throw new TypeError(`a URL may have at most ${LONGEST} characters`);
    return parse(resolveUrl(request));
  };
  class URL {
    #parts;
    #query;
    constructor(url, base) {
      this.#parts = resolve(string(url), base === undefined ? null : string(base));
      if (!this.#parts) throw new TypeError(`Invalid URL: ${url}`);
      this.#query = attach(this.#parts.search, (search) => { this.#parts = resolve(this.href, null, ['search', search]); });
    }
    static canParse(url, base) { return resolve(string(url), base === undefined ? null : string(base)) !== null; }
    static parse(url, base) { return URL.canParse(url, base) ? new URL(url, base) : null; }
    static {
      for (const part of ['protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'hash']) {
        const get = function () { return this.#parts[part]; };
        const set = function (value) {
          this.#parts = resolve(this.href, null, [part, string(value)]);
          if (part === 'search') this.#query.renew(this.#parts.search);
        };
        defineProperty(URL.prototype, part, { get, set, enumerable: true, configurable: true });
      }
    }
    get href() { return this.#parts.href; }
    set href(value) {
      const parts = resolve(string(value));
      if (!parts) throw new TypeError(`Invalid URL: ${value}`);
      this.#parts = parts;
      this.#query.renew(parts.search);
    }
    get origin() { return this.#parts.origin; }
    get searchParams() { return this.#query.params; }
    toString() { return this.href; }
    toJSON() { return this.href; }
  }
  define('URL', URL);

  // --- What there is not

  const absent = (what) => () => {
    throw new TypeError(`${what} is not available, because scripts have no locales: use toFixed, toISOString or your own format`);
  };
  define('Intl', new Proxy({}, { get: absent('Intl') }));
  const replace = (type, name, value) => defineProperty(type.prototype, name, { value, writable: true, configurable: true });
  for (const type of [Number, BigInt]) replace(type, 'toLocaleString', absent('toLocaleString'));
  // Of dates, the engine has the forms without a locale.
  for (const name of ['toLocaleString', 'toLocaleDateString', 'toLocaleTimeString']) {
    const plain = Date.prototype[name];
    const refuse = absent(name);
    replace(Date, name, { [name](...locales) { return locales.length > 0 ? refuse() : apply(plain, this, []); } }[name]);
  }
  return { URL, URLSearchParams, AbortSignal };
})
