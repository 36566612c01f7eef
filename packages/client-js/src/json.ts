/** Writes values as JSON, and rejects those that JSON would change or leave out without a word. */

/** Where a value is: its name or index in the object or array that contains it. */
export interface Place {
  readonly container: object;
  readonly name: string | number;
  readonly outer: Place | undefined;
}

/**
 * Return a value as JSON. A member that is `undefined` is absent; `toJSON` is called as by
 * `JSON.stringify`.
 *
 * Throws a TypeError, which names the place, for everything that would not arrive as it is: NaN and
 * infinities, integers that were rounded, `undefined` in an array, functions, symbols, BigInts,
 * invalid dates, Maps, Sets and other objects whose content is not their members, and cycles.
 * `at` is the value's own place, if it is part of a body.
 */
export function toJson(value: unknown, at?: Place): string {
  return present(value, at);
}

function present(value: unknown, at: Place | undefined): string {
  const text = write(value, at);
  if (text === undefined) throw notJson("undefined", at);
  return text;
}

/** Return the JSON of a value, or undefined for undefined. */
function write(value: unknown, at: Place | undefined): string | undefined {
  if (typeof value !== "object" || value === null) return writePrimitive(value, at);
  if (kindOf(value) === "Date" && Number.isNaN(Number(value))) throw notJson("an invalid Date", at);
  const converted = convert(value, at);
  if (typeof converted !== "object" || converted === null) return writePrimitive(converted, at);
  return writeObject(converted, at);
}

function writePrimitive(value: unknown, at: Place | undefined): string | undefined {
  switch (typeof value) {
    case "function":
    case "symbol":
      throw notJson(`a ${typeof value}`, at);
    case "bigint":
      throw notJson("a BigInt; send it as text", at);
    case "number":
      if (!Number.isFinite(value)) throw notJson(String(value), at);
      // from 1e21 on, a number is written with an exponent, and so promises no digits
      if (Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) < 1e21) {
        throw notJson("an integer beyond 2^53, which JavaScript has rounded; send it as text", at);
      }
  }
  return JSON.stringify(value);
}

function writeObject(value: object, at: Place | undefined): string {
  for (let place = at; place; place = place.outer) {
    if (place.container === value) throw notJson("an object that contains itself", at);
  }
  const inside = (name: string | number): Place => ({ container: value, name, outer: at });
  if (Array.isArray(value)) {
    return `[${Array.from(value, (element, index) => present(element, inside(index))).join()}]`;
  }
  const kind = kindOf(value);
  if (kind !== "Object") throw notJson(`of the type ${kind}, whose content is not its members`, at);
  const members = [];
  for (const [name, member] of Object.entries(value)) {
    const text = write(member, inside(name));
    if (text !== undefined) members.push(`${JSON.stringify(name)}:${text}`);
  }
  return `{${members.join()}}`;
}

/** Return what stands for an object in JSON: the result of its `toJSON`, the primitive that it wraps, or itself. */
function convert(value: object, at: Place | undefined): unknown {
  if ("toJSON" in value && typeof value.toJSON === "function") {
    try {
      return value.toJSON(String(at?.name ?? ""));
    } catch (cause) {
      throw new TypeError(`${pointer(at)} cannot be written as JSON: its toJSON failed.`, { cause });
    }
  }
  return ["Number", "String", "Boolean", "BigInt"].includes(kindOf(value)) ? value.valueOf() : value;
}

/** Return the name of a built-in type, also of another realm's, whose objects are no instances of ours. */
function kindOf(value: object): string {
  return Object.prototype.toString.call(value).slice("[object ".length, -1);
}

function notJson(what: string, at: Place | undefined): TypeError {
  return new TypeError(`${pointer(at)} cannot be written as JSON: it is ${what}.`);
}

/** Return the JSON pointer (RFC 6901) of a place. */
function pointer(at: Place | undefined): string {
  if (at === undefined) return "The value";
  const name = String(at.name).replace(/~/g, "~0").replace(/\//g, "~1");
  return `${at.outer === undefined ? "" : pointer(at.outer)}/${name}`;
}
