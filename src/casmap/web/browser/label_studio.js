// Label Studio files, as casmap/annotations/formats/label_studio.py writes them: tasks with predictions, and the interface.
import { outline } from "./outline.js";
import { rounded } from "./text.js";

// The folder of the photos below Label Studio's document root, which it refuses as a storage itself.
const PHOTOS = "/data/local-files/?d=photos/";

export function labelStudio(photos, classes, version) {
  const tasks = photos.map(({ name, width, height, objects }) => {
    const scores = objects.map(({ sum, area }) => Number(rounded(sum / area, 4)));
    const result = objects.flatMap((one, i) => {
      const about = { to_name: "image", original_width: width, original_height: height, image_rotation: 0, score: scores[i] };
      const across = 100 / width, down = 100 / height, [x0, y0, x1, y1] = one.box;
      const box = { x: x0 * across, y: y0 * down, width: (x1 - x0) * across, height: (y1 - y0) * down, rotation: 0, rectanglelabels: [one.label] };
      const polygon = { points: outline(one.runs).map(([x, y]) => [x * across, y * down]), closed: true, polygonlabels: [one.label] };
      return [
        { id: `box-${i}`, type: "rectanglelabels", from_name: "box", value: box, ...about },
        { id: `outline-${i}`, type: "polygonlabels", from_name: "outline", value: polygon, ...about },
      ];
    });
    return {
      data: { image: PHOTOS + quoted(name) },
      predictions: [{ model_version: `casmap ${version}`, score: Math.max(0, ...scores), result }],
    };
  });
  return { "config.xml": config(classes), "tasks.json": `${JSON.stringify(tasks)}\n` };
}

// As Python's urllib quotes it.
const quoted = name => encodeURIComponent(name).replace(/[!'()*]/g, letter => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`);

function config(classes) {
  const escaped = text => text.replace(/[&<>"\n\r\t]/g, letter => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[letter] ?? `&#${String(letter.charCodeAt(0)).padStart(2, "0")};`);
  const tools = [["RectangleLabels", "box"], ["PolygonLabels", "outline"]].flatMap(([tag, name]) => {
    const start = `  <${tag} name="${name}" toName="image"`, labels = classes.map(label => `    <Label value="${escaped(label)}" />`);
    return labels.length ? [`${start}>`, ...labels, `  </${tag}>`] : [`${start} />`];
  });
  return `${["<View>", '  <Image name="image" value="$image" />', ...tools, "</View>"].join("\n")}\n`;
}
