// The globals of a script, built on the functions of the host. Runs before the script, so no built-in function has been replaced yet.
(function (host) {
  'use strict';
  const { call, log, load, setTimer, parseCsv, random, depth, encode, define, web } = host;
  const { parse, stringify } = JSON;
  const { freeze, defineProperty, fromEntries, hasOwn, keys } = Object;
  const { isArray } = Array;
  const { ceil } = Math;
  const { MAX_SAFE_INTEGER } = Number;

  // The error is created at the call, because an answer has no stack.
  const ask = (name, fields) => call(name, encode.argument(fields), new Error());
  const text = (value, what) => {
    if (typeof value !== 'string') throw new TypeError(`${what} must be a string`);
    return value;
  };

  const oneOf = (value, what, choices) => {
    for (let at = 0; at < choices.length; at++) if (choices[at] === value) return value;
    throw new TypeError(`${what} must be one of ${stringify(choices)}`);
  };

  const shown = (value) => {
    switch (typeof value) {
      case 'string': return value;
      case 'function': return `[function ${value.name}]`;
      case 'undefined': case 'symbol': case 'bigint': return String(value);
    }
    if (value instanceof Error) return `${value.name}: ${value.message}`;
    return encode.shown(value);
  };
  const print = (mark) => (...values) => {
    let line = mark;
    for (let at = 0; at < values.length; at++) {
      if (at > 0) line += ' ';
      try {
        line += shown(values[at]);
      } catch (error) {
        line += '[cannot be shown]';
      }
    }
    log(line);
  };
  const console = { log: print(''), warn: print('[WARN] '), error: print('[ERROR] ') };
  console.info = console.debug = console.log;
  define('console', console);

  define('state', freeze({
    get: async (key) => ask('state_get', { __proto__: null, key: text(key, 'the key') }),
    set: async (key, value) => {
      await ask('state_set', { __proto__: null, key: text(key, 'the key'), value: value === undefined ? null : value });
    },
    delete: async (key) => ask('state_delete', { __proto__: null, key: text(key, 'the key') }),
    keys: async (prefix = '') => ask('state_keys', { __proto__: null, prefix: text(prefix, 'the prefix') }),
  }));

  define('db', freeze({
    sql: async (sql, params = []) => {
      if (!isArray(params)) throw new TypeError('the parameters must be an array');
      return ask('db_sql', { __proto__: null, sql: text(sql, 'the statement'), params });
    },
    schema: async () => ask('db_schema', { __proto__: null }),
  }));

  const optional = (value, convert) => (value === undefined || value === null ? undefined : convert(value));
  const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD'];
  const fields = (headers) => {
    if (typeof headers !== 'object') throw new TypeError('the headers must be an object: { name: value }');
    const own = { __proto__: null };
    for (const name of keys(headers)) own[name] = `${headers[name]}`;
    return own;
  };
  const { URL, URLSearchParams, AbortSignal } = web;
  const FORM = { 'content-type': 'application/x-www-form-urlencoded;charset=UTF-8' };
  const until = (answer, signal) => {
    if (!(signal instanceof AbortSignal)) return answer;
    return new Promise((done, failed) => {
      signal.addEventListener('abort', () => failed(signal.reason));
      answer.then(done, failed);
    });
  };
  define('fetch', async function fetch(url, options = {}) {
    const { method, headers, body, timeout, redirect = 'follow', signal } = options ?? {};
    if (signal instanceof AbortSignal) signal.throwIfAborted();
    if (redirect !== 'follow') throw new TypeError('fetch follows redirects: leave out the option redirect');
    const answer = ask('fetch', {
      __proto__: null,
      url: text(url instanceof URL ? url.href : url, 'the URL'),
      method: optional(method, (value) => oneOf(text(value, 'the method').toUpperCase(), 'the method', METHODS)),
      headers: optional(headers ?? (body instanceof URLSearchParams ? FORM : undefined), fields),
      body: optional(body, (value) => text(value instanceof URLSearchParams ? value.toString() : value, 'the body')),
      timeout: optional(timeout, (value) => {
        const ms = ceil(value);
        if (ms >= 0 && ms <= MAX_SAFE_INTEGER) return ms;
        throw new TypeError('the timeout must be a number of milliseconds');
      }),
    });
    const { status, url: last, headers: sent, body: content } = await until(answer, signal);
    // `get` also works, as in a browser. It is not enumerable, so the object's own names are only those of headers.
    if (!hasOwn(sent, 'get')) {
      const value = (name) => {
        const key = text(name, 'the name of a header').toLowerCase();
        return hasOwn(sent, key) && key !== 'get' ? sent[key] : null;
      };
      defineProperty(sent, 'get', { value });
    }
    return {
      ok: status >= 200 && status < 300,
      status,
      url: last,
      headers: sent,
      text: async () => content,
      json: async () => {
        try {
          return parse(content);
        } catch (error) {
          throw new SyntaxError(`the body of the response (status ${status}) is not JSON: ${error.message}. Read it with text()`);
        }
      },
    };
  });

  const UNTIL = ['load', 'domcontentloaded', 'networkidle'];
  const selector = (value) => optional(value, (given) => text(given, 'the selector'));
  const browse = (action, fields = {}) => ask('browser', { __proto__: null, [action]: fields });
  define('browser', freeze({
    navigate: async (url, options) => browse('navigate', {
      url: text(url, 'the URL'),
      wait_until: optional(options?.wait_until, (value) => oneOf(value, 'wait_until', UNTIL)),
    }),
    screenshot: async (options) => browse('screenshot', {
      selector: selector(options?.selector),
      full_page: Boolean(options?.full_page),
    }),
    click: async (element) => { await browse('click', { selector: text(element, 'the selector') }); },
    type: async (element, content, options) => {
      await browse('type', {
        selector: text(element, 'the selector'),
        text: text(content, 'the text'),
        clear_first: Boolean(options?.clear_first),
      });
    },
    extractText: async (element) => browse('extract_text', { selector: selector(element) }),
    extractHtml: async (element, options) => browse('extract_html', {
      selector: selector(element),
      outer: Boolean(options?.outer),
    }),
    evaluate: async (code) => browse('evaluate', { code: text(code, 'the code') }),
    close: async () => { await browse('close'); },
  }));

  const loaded = new Map();
  const running = [];
  const get = (name) => Map.prototype.get.call(loaded, name);
  define('require', function require(name) {
    const known = get(text(name, 'the name of a library'));
    if (known) return known.exports;
    const at = running.indexOf(name);
    if (at >= 0) throw new Error(`Circular dependency: ${[...running.slice(at), name].join(' -> ')}`);
    if (running.length >= depth) {
      throw new Error(`libraries may require each other ${depth} levels deep: ${[...running, name].join(' -> ')}`);
    }
    const body = load(name);
    if (body === undefined) throw new Error(`Library not found: ${name}`);
    const module = { exports: {} };
    running.push(name);
    try {
      body.call(undefined, module, module.exports, require);
    } finally {
      running.pop();
    }
    loaded.set(name, module);
    return module.exports;
  });

  defineProperty(Math, 'random', { value: random, writable: true, configurable: true, enumerable: false });

  define('parseCSV', (content, { header = false } = {}) => {
    const rows = parseCsv(text(content, 'the text'), Boolean(header));
    if (!header) return rows;
    const [names, ...others] = rows;
    return others.map((row) => fromEntries(names.map((name, at) => [name, row[at]])));
  });

  define('setTimeout', function setTimeout(callback, delay = 0, ...args) {
    if (typeof callback !== 'function') throw new TypeError('setTimeout needs a function: text is not run as code');
    return setTimer(() => callback(...args), Number(delay) || 0);
  });

  for (const name of ['eval', 'Function', 'SharedArrayBuffer', 'Atomics', 'navigator', 'WebAssembly', 'gc']) {
    delete globalThis[name];
  }
})
