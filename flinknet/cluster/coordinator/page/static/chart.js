// What was seen of the metrics that somebody plots, of the vertex that is looked at: as long as the
// page shows it, and at most so many points.

const POINTS_MAX = 300;

export class Chart {
  constructor(changed) {
    this.names = [];
    this._changed = changed;
    this._points = new Map();
    this._of = "";
  }

  // Another vertex begins anew.
  look(of) {
    if (of !== this._of) {
      this._of = of;
      this._points.clear();
    }
  }

  add(name) {
    if (!this.names.includes(name)) this.names = [...this.names, name];
    this._changed();
  }

  remove(name) {
    this.names = this.names.filter((one) => one !== name);
    this._points.delete(name);
    this._changed();
  }

  take(at, metrics) {
    for (const { id, min, max, avg } of metrics) {
      const points = this._points.get(id) ?? [];
      points.push({ at, min, max, avg });
      this._points.set(id, points.slice(-POINTS_MAX));
    }
  }

  points(name) {
    return this._points.get(name) ?? [];
  }
}
