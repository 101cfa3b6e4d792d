// Names and numbers in annotation files, as Python writes them.

// What a text file cannot show: control characters, line separators, and characters that change the direction of text.
const HIDDEN = /[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]/g;
const bytes = letter => [...new TextEncoder().encode(letter)].map(byte => `\\x${byte.toString(16).padStart(2, "0")}`).join("");
const escaped = text => text.replace(HIDDEN, bytes);

// A name of a photo in a text file; casmap reads it back.
export const written = name => escaped(name.replace(/\\(?=x[0-9a-f]{2})/g, "\\x5c"));

// A name that stays in its folder.
export const safe = name => escaped(name).replace(/[\\/:]/g, "-");

// A positive number with some digits after the point; a half goes to the even digit.
export function rounded(value, digits) {
  const text = value.toFixed(digits), half = Math.abs(value * 2 ** (digits + 1) % 2) === 1;
  return half && Number(text.at(-1)) % 2 ? (value - 10 ** -digits / 4).toFixed(digits) : text;
}
