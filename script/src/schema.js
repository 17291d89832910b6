// JSON Schema (draft 2020-12) as schemas of tools use it. Compiles a schema, and checks the arguments if there are any. Returns a
// message that says what is wrong, or null.
(function (schema, args) {
  'use strict';
  // How many schemas a schema has when each reference is replaced by what it refers to, and how deep they are nested.
  const PARTS = 10_000;
  const DEPTH = 100;
  // How many wrong places a message names, how many values in each, and how many characters of a value.
  const PLACES = 10;
  const VALUES = 20;
  const CHARACTERS = 100;

  const isString = (value) => typeof value === 'string';
  const isNumber = (value) => typeof value === 'number';
  const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
  const KINDS = new Map([
    ['null', (value) => value === null],
    ['boolean', (value) => typeof value === 'boolean'],
    ['object', isObject],
    ['array', Array.isArray],
    ['number', isNumber],
    ['integer', Number.isInteger],
    ['string', isString],
  ]);

  const quoted = (names) => names.map((name) => `"${name}"`).join(', ');
  const cut = (text) => {
    const first = [...text.slice(0, 2 * CHARACTERS + 1)].slice(0, CHARACTERS).join('');
    return first === text ? text : `${first}…`;
  };
  const short = (value) => cut(JSON.stringify(value));

  // A schema that is refused.
  class Invalid extends Error {}
  const invalid = (what) => new Invalid(`\`parameter_schema\` ${what}`);
  const wrong = (keyword, right) => invalid(`is not a valid JSON schema: \`${keyword}\` must be ${right}`);

  // Checks a value against rules. Without a list of errors, it ends at the first one.
  class Run {
    failed = false;
    path = [];

    constructor(errors) {
      this.errors = errors;
    }

    check(rules, value) {
      for (const rule of rules) {
        if (this.failed && !this.errors) return;
        rule(value, this);
      }
    }

    checkAt(part, rules, value) {
      this.path.push(part);
      this.check(rules, value);
      this.path.pop();
    }

    fail(message) {
      this.failed = true;
      if (!this.errors || this.errors.length === PLACES) return;
      // As in a JSON pointer.
      const place = this.path.map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
      this.errors.push(place === '' ? message() : `${place}: ${message()}`);
    }
  }

  const holds = (rules, value) => {
    const run = new Run();
    run.check(rules, value);
    return !run.failed;
  };

  // The rules of a keyword are functions of an argument, or a part of one, and a run. Other kinds of values satisfy them.

  const never = (arg, run) => run.fail(() => `${short(arg)} is not allowed`);

  const text = (value, keyword) => {
    if (!isString(value)) throw wrong(keyword, 'a string');
    return value;
  };
  const list = (value, keyword) => {
    if (!Array.isArray(value)) throw wrong(keyword, 'a list');
    return value;
  };
  const entries = (value, keyword) => {
    if (!isObject(value)) throw wrong(keyword, 'an object');
    return Object.entries(value);
  };
  const names = (value, keyword) => {
    if (!Array.isArray(value) || !value.every(isString)) throw wrong(keyword, 'a list of names');
    return value;
  };
  const size = (value, keyword) => {
    if (!Number.isInteger(value) || value < 0) throw wrong(keyword, 'a whole number that is not negative');
    return value;
  };
  const patterns = new Map();
  const pattern = (source, keyword) => {
    try {
      // A definition is compiled at each reference to it.
      if (!patterns.has(source)) patterns.set(source, new RegExp(source, 'u'));
      return patterns.get(source);
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      throw wrong(keyword, `a regular expression of JavaScript, which \`${cut(source)}\` is not (${error.message})`);
    }
  };

  const type = (value) => {
    const kinds = Array.isArray(value) ? value : [value];
    if (kinds.length === 0 || !kinds.every((kind) => KINDS.has(kind))) {
      throw wrong('type', `one of ${quoted([...KINDS.keys()])}, or a list of them`);
    }
    return (arg, run) => {
      if (kinds.some((kind) => KINDS.get(kind)(arg))) return;
      run.fail(() => `${short(arg)} is not of ${kinds.length === 1 ? 'type' : 'types'} ${quoted(kinds)}`);
    };
  };

  // The same text for equal values: the order of an object's properties does not matter.
  const sorted = ([a], [b]) => (a < b ? -1 : 1);
  const canonical = (value) =>
    JSON.stringify(value, (_, part) => (isObject(part) ? Object.fromEntries(Object.entries(part).sort(sorted)) : part));

  const oneOf = (values) => {
    const texts = new Set(values.map(canonical));
    return (arg, run) => {
      if (texts.has(canonical(arg))) return;
      run.fail(() =>
        values.length === 1
          ? `${short(values[0])} was expected, and not ${short(arg)}`
          : `${short(arg)} is not one of ${values.slice(0, VALUES).map(short).join(', ')}`,
      );
    };
  };

  const bound = (isRight, what) => (limit, keyword) => {
    if (!isNumber(limit)) throw wrong(keyword, 'a number');
    return (arg, run) => {
      if (isNumber(arg) && !isRight(arg, limit)) run.fail(() => `${short(arg)} is ${what} ${limit}`);
    };
  };

  const isMultiple = (value, step) => {
    if (Number.isInteger(value) && Number.isInteger(step)) return value % step === 0;
    // 0.3 is a multiple of 0.1, although not of the binary number next to it.
    const times = value / step;
    return Math.abs(times - Math.round(times)) <= 1e-9 * Math.max(Math.abs(times), 1);
  };
  const multipleOf = (step, keyword) => {
    if (!(step > 0)) throw wrong(keyword, 'a number greater than 0');
    return bound(isMultiple, 'not a multiple of')(step, keyword);
  };

  // Returns what is wrong with a number of things.
  const miscounted = (count, least, most, things) => {
    if (count < least) return `has ${count} ${things}, but needs at least ${least}`;
    return count > most && `has ${count} ${things}, but may have at most ${most}`;
  };
  const counted = (is, count, things, named) => {
    const rule = (least, most) => (arg, run) => {
      const why = is(arg) && miscounted(count(arg), least, most, things);
      if (why) run.fail(() => `${named(arg)} ${why}`);
    };
    return [
      (value, keyword) => rule(size(value, keyword), Infinity),
      (value, keyword) => rule(0, size(value, keyword)),
    ];
  };
  const characters = (value) => {
    let count = 0;
    for (const _ of value) count++;
    return count;
  };
  const [minLength, maxLength] = counted(isString, characters, 'characters', short);
  const [minItems, maxItems] = counted(Array.isArray, (items) => items.length, 'items', () => 'the array');
  const properties = (value) => Object.keys(value).length;
  const [minProperties, maxProperties] = counted(isObject, properties, 'properties', () => 'the object');

  const matching = (source, keyword) => {
    const regex = pattern(text(source, keyword), keyword);
    return (arg, run) => {
      if (isString(arg) && !regex.test(arg)) run.fail(() => `${short(arg)} does not match "${cut(source)}"`);
    };
  };

  const uniqueItems = (value, keyword) => {
    if (typeof value !== 'boolean') throw wrong(keyword, 'a boolean');
    return value && ((items, run) => {
      const isUnique = !Array.isArray(items) || new Set(items.map(canonical)).size === items.length;
      if (!isUnique) run.fail(() => 'the array has equal items');
    });
  };

  const required = (value, keyword, ifPresent) => {
    const all = names(value, keyword);
    return (arg, run) => {
      if (!isObject(arg) || (ifPresent !== undefined && !Object.hasOwn(arg, ifPresent))) return;
      for (const name of all) {
        if (!Object.hasOwn(arg, name)) run.fail(() => `"${cut(name)}" is a required property`);
      }
    };
  };
  const dependentRequired = (value, keyword) => {
    const rules = entries(value, keyword).map(([name, others]) => required(others, keyword, name));
    return (arg, run) => run.check(rules, arg);
  };

  // The rules of keywords with schemas.

  let parts = 0;
  let depth = 0;
  const compile = (part) => {
    if (++parts > PARTS || depth === DEPTH) throw invalid('is too complex: use fewer references and levels');
    if (part === true) return [];
    if (part === false) return [never];
    if (!isObject(part)) throw invalid('is not a valid JSON schema: a schema is an object or a boolean');
    depth++;
    const rules = Object.entries(part).map(([keyword, value]) => KEYWORDS.get(keyword)?.(value, keyword, part));
    depth--;
    return rules.filter(Boolean);
  };
  const compileIfAny = (part) => (part === undefined ? [] : compile(part));
  const compileAll = (value, keyword) => list(value, keyword).map(compile);
  const compileSome = (value, keyword) => {
    if (list(value, keyword).length === 0) throw wrong(keyword, 'a list of at least one schema');
    return value.map(compile);
  };

  // The definitions that are being compiled, the outermost first.
  const within = [];
  const reference = (to, keyword) => {
    const refused = (what) => new Invalid(`\`$ref\` to \`${cut(to)}\` in \`parameter_schema\` ${what}`);
    if (within.includes(text(to, keyword))) throw refused('is circular: write the levels out');
    const place = ['$defs', 'definitions'].find((place) => to.startsWith(`#/${place}/`));
    const definitions = place && schema[place];
    const name = to.slice(`#/${place}/`.length);
    if (!isObject(definitions) || !Object.hasOwn(definitions, name)) {
      throw refused('refers to nothing: it can be `#/$defs/NAME`, and nothing outside of the schema');
    }
    within.push(to);
    const rules = compile(definitions[name]);
    within.pop();
    return (arg, run) => run.check(rules, arg);
  };
  const referring = (_, keyword) => {
    throw invalid(`must not have \`${keyword}\``);
  };
  const unsupported = (_, keyword) => {
    throw new Invalid(`\`${keyword}\` in \`parameter_schema\` is not supported: describe the arguments without it`);
  };
  // Checked even if nothing refers to them.
  const definitions = (value, keyword) => entries(value, keyword).forEach(([, part]) => compile(part));

  const allOf = (value, keyword) => {
    const rules = compileSome(value, keyword).flat();
    return (arg, run) => run.check(rules, arg);
  };
  const anyOf = (value, keyword) => {
    const schemas = compileSome(value, keyword);
    return (arg, run) => {
      if (schemas.some((rules) => holds(rules, arg))) return;
      run.fail(() => `${short(arg)} is not valid under any of the schemas of \`anyOf\``);
    };
  };
  const exactlyOne = (value, keyword) => {
    const schemas = compileSome(value, keyword);
    return (arg, run) => {
      const { length } = schemas.filter((rules) => holds(rules, arg));
      if (length === 1) return;
      const which = length === 0 ? 'none' : 'more than one';
      run.fail(() => `${short(arg)} is valid under ${which} of the schemas of \`oneOf\``);
    };
  };
  const not = (value) => {
    const rules = compile(value);
    return (arg, run) => {
      if (holds(rules, arg)) run.fail(() => `${short(arg)} is what \`not\` excludes`);
    };
  };
  const conditional = (value, _, { then, else: otherwise }) => {
    const [condition, yes, no] = [compile(value), compileIfAny(then), compileIfAny(otherwise)];
    return (arg, run) => run.check(holds(condition, arg) ? yes : no, arg);
  };

  const prefixItems = (value, keyword) => {
    const schemas = compileAll(value, keyword);
    return (arg, run) => {
      if (!Array.isArray(arg)) return;
      arg.slice(0, schemas.length).forEach((item, at) => run.checkAt(at, schemas[at], item));
    };
  };
  const items = (value, keyword, { prefixItems = [] }) => {
    if (Array.isArray(value)) throw wrong(keyword, 'a schema: use `prefixItems` for a list of schemas');
    const rules = compile(value);
    return (arg, run) => {
      if (!Array.isArray(arg)) return;
      for (let at = prefixItems.length; at < arg.length; at++) run.checkAt(at, rules, arg[at]);
    };
  };
  const contains = (value, _, { minContains = 1, maxContains }) => {
    const least = size(minContains, 'minContains');
    const most = maxContains === undefined ? Infinity : size(maxContains, 'maxContains');
    const rules = compile(value);
    return (arg, run) => {
      if (!Array.isArray(arg)) return;
      const { length } = arg.filter((item) => holds(rules, item));
      const why = miscounted(length, least, most, 'items that match `contains`');
      if (why) run.fail(() => `the array ${why}`);
    };
  };

  const propertyNames = (value) => {
    const rules = compile(value);
    return (arg, run) => {
      if (!isObject(arg)) return;
      for (const name of Object.keys(arg)) {
        if (!holds(rules, name)) run.fail(() => `the property name ${short(name)} is not allowed`);
      }
    };
  };
  // One rule for the three keywords, where the first one stands.
  const FIELDS = ['properties', 'patternProperties', 'additionalProperties'];
  const fields = (_, keyword, part) => {
    if (FIELDS.find((keyword) => Object.hasOwn(part, keyword)) !== keyword) return null;
    const { properties = {}, patternProperties = {}, additionalProperties } = part;
    const named = new Map(entries(properties, 'properties').map(([name, part]) => [name, compile(part)]));
    const matching = entries(patternProperties, 'patternProperties').map(([source, part]) => [
      pattern(source, 'patternProperties'),
      compile(part),
    ]);
    const others = compileIfAny(additionalProperties);
    return (arg, run) => {
      if (!isObject(arg)) return;
      const unexpected = [];
      for (const [name, field] of Object.entries(arg)) {
        const known = matching.filter(([regex]) => regex.test(name)).map(([, rules]) => rules);
        if (named.has(name)) known.unshift(named.get(name));
        if (known.length === 0 && others.length === 1 && others[0] === never) unexpected.push(name);
        else if (known.length === 0) run.checkAt(name, others, field);
        for (const rules of known) run.checkAt(name, rules, field);
      }
      if (unexpected.length === 0) return;
      const some = unexpected.slice(0, VALUES).map((name) => `'${cut(name)}'`).join(', ');
      const were = unexpected.length === 1 ? 'was' : 'were';
      run.fail(() => `Additional properties are not allowed (${some} ${were} unexpected)`);
    };
  };

  // Others restrict nothing.
  const KEYWORDS = new Map(
    Object.entries({
      $ref: reference,
      $id: referring,
      $anchor: referring,
      $dynamicRef: referring,
      $dynamicAnchor: referring,
      $recursiveRef: referring,
      $recursiveAnchor: referring,
      additionalItems: unsupported,
      dependencies: unsupported,
      dependentSchemas: unsupported,
      unevaluatedItems: unsupported,
      unevaluatedProperties: unsupported,
      type,
      enum: (value, keyword) => oneOf(list(value, keyword)),
      const: (value) => oneOf([value]),
      minimum: bound((arg, limit) => arg >= limit, 'less than the minimum of'),
      maximum: bound((arg, limit) => arg <= limit, 'greater than the maximum of'),
      exclusiveMinimum: bound((arg, limit) => arg > limit, 'not greater than'),
      exclusiveMaximum: bound((arg, limit) => arg < limit, 'not less than'),
      multipleOf,
      minLength,
      maxLength,
      pattern: matching,
      minItems,
      maxItems,
      uniqueItems,
      prefixItems,
      items,
      contains,
      minProperties,
      maxProperties,
      required: (value, keyword) => required(value, keyword),
      dependentRequired,
      propertyNames,
      properties: fields,
      patternProperties: fields,
      additionalProperties: fields,
      allOf,
      anyOf,
      oneOf: exactlyOne,
      not,
      if: conditional,
      $defs: definitions,
      definitions,
    }),
  );

  try {
    if (!isObject(schema) || schema.type !== 'object') throw invalid('must be a JSON schema with `"type": "object"`');
    const rules = compile(schema);
    if (args === undefined) return null;
    const run = new Run([]);
    run.check(rules, args);
    return run.failed ? `the arguments do not match \`parameter_schema\`: ${run.errors.join('; ')}` : null;
  } catch (error) {
    if (error instanceof Invalid) return error.message;
    throw error;
  }
})
