// Names of files.

// A name without its ending.
export const stem = name => name.replace(/(.)\.[^.]+$/s, "$1");

const folded = name => name.toUpperCase().toLowerCase(); // some file systems ignore case

// A name that is not taken yet, in upper or lower case; it is, then.
export function unique(name, taken) {
  const start = stem(name);
  let found = name;
  for (let number = 2; taken.has(folded(found)); number++) found = `${start}-${number}${name.slice(start.length)}`;
  taken.add(folded(found));
  return found;
}
