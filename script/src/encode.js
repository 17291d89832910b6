// Values of a script as JSON. Runs before the script, so no built-in function has been replaced yet.
(function () {
  'use strict';
  const { stringify } = JSON;
  const { fromEntries } = Object;
  const { isArray } = Array;
  const [OwnPromise, OwnError, OwnMap, OwnSet] = [Promise, Error, Map, Set];
  const uncurry = Function.prototype.bind.bind(Function.prototype.call);
  const [has, read, write] = [uncurry(WeakMap.prototype.has), uncurry(WeakMap.prototype.get), uncurry(WeakMap.prototype.set)];

  const described = (error) => {
    const { name, message, cause, errors } = error;
    const fields = { name: `${name}`, message: `${message}`, ...error };
    if (cause !== undefined) fields.cause = cause;
    if (isArray(errors)) fields.errors = errors;
    return fields;
  };
  const entries = (map) => {
    const all = [...map];
    return all.every((entry) => typeof entry[0] === 'string') ? fromEntries(all) : all;
  };

  // JSON has no form for these values: it would be `{}`. `pending` returns what stands for a promise.
  const plain = (item, pending) => {
    if (typeof item !== 'object' || item === null) return item;
    if (item instanceof OwnPromise) return pending(item);
    if (item instanceof OwnError) return described(item);
    if (item instanceof OwnMap) return entries(item);
    return item instanceof OwnSet ? [...item] : item;
  };

  // The values of the promises in results, which are awaited.
  const values = new WeakMap();
  const result = (value) => {
    if (typeof value === 'function') {
      throw new TypeError('the result is a function: call it, and return what it returns');
    }
    const found = [];
    const pending = (promise) => {
      if (has(values, promise)) {
        const { value } = read(values, promise);
        return plain(typeof value?.toJSON === 'function' ? value.toJSON('') : value, pending);
      }
      found[found.length] = promise;
      return null;
    };
    const text = stringify(value, (_, item) => plain(item, pending));
    return found.length === 0 ? text : later(value, found);
  };
  const later = async (value, found) => {
    for (let at = 0; at < found.length; at++) write(values, found[at], { value: await found[at] });
    return result(value);
  };

  const refused = () => {
    throw new TypeError('the value contains a promise: await it first');
  };
  const argument = (value) => stringify(value, (_, item) => plain(item, refused));

  const shown = (value) => {
    const above = [];
    const pending = () => '[Promise: await it]';
    return stringify(value, function (_, given) {
      if (typeof given === 'bigint') return `${given}n`;
      const item = plain(given, pending);
      if (typeof item !== 'object' || item === null) return item;
      while (above.length > 0 && above[above.length - 1].shown !== this) above.pop();
      if (above.some((one) => one.given === given)) return '[Circular]';
      above.push({ given, shown: item });
      return item;
    });
  };
  return { result, argument, shown };
})
