// Names of files.

// A name without its ending.
export const stem = name => name.replace(/(.)\.[^.]+$/s, "$1");

// A name that is not taken yet; it is, then.
export function unique(name, taken) {
  const start = stem(name);
  let found = name;
  for (let number = 2; taken.has(found); number++) found = `${start}-${number}${name.slice(start.length)}`;
  taken.add(found);
  return found;
}
