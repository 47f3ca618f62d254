// Two small charts on canvas: lines over the last samples, with a scale that rises to what is shown.

const ROOM = { left: 46, right: 6, top: 8, bottom: 18 };

/** A round number at or above `value`. */
function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1e-9)));
  const step = [1, 2, 5, 10].find((step) => step * power >= value);
  return step * power;
}

/**
 * Draws `lines`, each `{ colour, values }` of equal length, the newest value last; null leaves a gap.
 * `words` turns a value into what stands at the scale, `span` is how many values fill the width.
 */
export function draw(canvas, lines, words, span) {
  const style = getComputedStyle(document.documentElement);
  const ratio = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (width === 0) return;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.font = "11px system-ui, sans-serif";
  const inner = { width: width - ROOM.left - ROOM.right, height: height - ROOM.top - ROOM.bottom };
  const top = ceiling(Math.max(...lines.flatMap((line) => line.values.map((value) => value ?? 0)), 1));
  const x = (index, count) => ROOM.left + inner.width * (1 - (count - 1 - index) / (span - 1));
  const y = (value) => ROOM.top + inner.height * (1 - value / top);

  pen.strokeStyle = style.getPropertyValue("--line");
  pen.fillStyle = style.getPropertyValue("--quiet");
  pen.lineWidth = 1;
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  for (const part of [0, 0.5, 1]) {
    const at = Math.round(y(top * part)) + 0.5;
    pen.beginPath();
    pen.moveTo(ROOM.left, at);
    pen.lineTo(width - ROOM.right, at);
    pen.stroke();
    pen.fillText(words(top * part), ROOM.left - 6, at);
  }
  pen.textBaseline = "alphabetic";
  pen.fillText("now", width - ROOM.right, height - 4);
  pen.textAlign = "left";
  pen.fillText(`${Math.round(span / 60)} min ago`, ROOM.left, height - 4);

  for (const { colour, values } of lines) {
    pen.strokeStyle = style.getPropertyValue(colour);
    pen.lineWidth = 1.6;
    pen.lineJoin = "round";
    pen.beginPath();
    let drawing = false;
    values.forEach((value, index) => {
      if (value === null) {
        drawing = false;
        return;
      }
      const point = [x(index, values.length), y(value)];
      if (drawing) pen.lineTo(...point);
      else pen.moveTo(...point);
      drawing = true;
    });
    pen.stroke();
  }
}
