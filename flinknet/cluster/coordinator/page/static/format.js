// Numbers, sizes and times in readable form. An unknown value is a dash.

const DASH = "–";
const DECIMAL = ["", " k", " M", " G", " T"];
const BINARY = [" B", " KiB", " MiB", " GiB", " TiB"];

function scaled(value, step, units) {
  let unit = 0;
  let rest = Math.abs(value);
  while (rest >= step * 0.9995 && unit < units.length - 1) {
    rest /= step;
    unit += 1;
  }
  const isWhole = unit === 0 && (rest === 0 || rest >= 1);
  const digits = isWhole || rest >= 100 ? 0 : rest >= 10 ? 1 : 2;
  return `${value < 0 ? "-" : ""}${rest.toFixed(digits)}${units[unit]}`;
}

export const isKnown = (value) => value !== null && value !== undefined;

const known = (text) => (value) => (isKnown(value) ? text(value) : DASH);

export const count = known((value) => value.toLocaleString("en", { maximumFractionDigits: 1 }));
export const short = known((value) => scaled(value, 1000, DECIMAL));
export const bytes = known((value) => scaled(value, 1024, BINARY));
export const perSecond = known((value) => `${short(value)}/s`);
export const bytesPerSecond = known((value) => `${bytes(value)}/s`);
export const percent = known((share) => `${Math.round(100 * share)} %`);
export const milliseconds = known((value) =>
  value < 0 ? DASH : value < 1000 ? `${Math.round(value)} ms` : duration(value / 1000));
export const text = known(String);
export const yesNo = known((value) => (value ? "yes" : "no"));

export function duration(seconds) {
  if (!isKnown(seconds) || seconds < 0) return DASH;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export const clock = known((ms) =>
  ms <= 0 ? DASH : new Date(ms).toLocaleString("sv", { hour12: false }));

const DATE_MAX = 8.64e15;

// Event time. The ends of the 64-bit range stand for before and after all events; they are no
// dates.
export const watermark = known((ms) =>
  ms < -DATE_MAX ? "none yet" : ms > DATE_MAX ? "the end" : new Date(ms).toISOString());

export const words = (name) => name.toLowerCase().replaceAll("_", " ");
