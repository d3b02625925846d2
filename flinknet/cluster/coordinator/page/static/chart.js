// Recent values of the plotted metrics of the displayed vertex, while the page shows it.
// The number of points is limited.

const POINTS_MAX = 300;

export class Chart {
  constructor(changed) {
    this.names = [];
    this._changed = changed;
    this._points = new Map();
    this._told = new Map();
    this._of = "";
  }

  // Drop all points when another vertex is displayed.
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
    for (const { id, min, max, avg, ...told } of metrics) {
      const points = this._points.get(id) ?? [];
      points.push({ at, min, max, avg });
      this._points.set(id, points.slice(-POINTS_MAX));
      this._told.set(id, told);
    }
  }

  // The meaning of a metric, and how its last values add up: { total, adds, unit, help }.
  told(name) {
    return this._told.get(name) ?? {};
  }

  points(name) {
    return this._points.get(name) ?? [];
  }
}
