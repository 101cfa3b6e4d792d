// COCO files of several requests as one: entries are numbered again, and classes have one number in all of them.

export function merged(files) {
  const classes = [...new Set(files.flatMap(({ categories }) => categories.map(({ name }) => name)))].sort();
  const all = { ...files[0], images: [], categories: classes.map((name, i) => ({ id: i + 1, name, supercategory: "" })), annotations: [] };
  for (const { images, annotations, categories } of files) {
    const photos = all.images.length, objects = all.annotations.length;
    const numbers = new Map(categories.map(({ id, name }) => [id, classes.indexOf(name) + 1]));
    all.images.push(...images.map(one => ({ ...one, id: one.id + photos })));
    all.annotations.push(...annotations.map(one => ({
      ...one, id: one.id + objects, image_id: one.image_id + photos, category_id: numbers.get(one.category_id),
    })));
  }
  return new Blob([JSON.stringify(all)], { type: "application/json" });
}
