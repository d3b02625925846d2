// Requests to the coordinator. The token comes in the fragment of the address, which is not sent,
// or from the user. It is kept for this tab, and removed from the address at once.

const KEY = "flinknet-token";

export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function takeTokenFromAddress() {
  const found = /^#token=([^/&]+)(.*)$/.exec(location.hash);
  if (found) {
    sessionStorage.setItem(KEY, decodeURIComponent(found[1]));
    history.replaceState(null, "", `#${found[2] || "/"}`);
  }
}

export const hasToken = () => sessionStorage.getItem(KEY) !== null;

export function useToken(token) {
  sessionStorage.setItem(KEY, token.trim());
}

export async function ask(path, { method = "GET", body, patience = 30_000 } = {}) {
  const headers = { Authorization: `Bearer ${sessionStorage.getItem(KEY) ?? ""}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const response = await fetch(path, {
    method,
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: AbortSignal.timeout(patience),
  });
  const text = await response.text();
  if (response.ok) return text;
  throw new Refusal(response.status, refusalOf(text) || `${response.status} ${response.statusText}`);
}

function refusalOf(text) {
  try {
    const said = JSON.parse(text);
    return said.error?.message ?? said.errors?.join("; ") ?? text;
  } catch {
    return text;
  }
}

export const cancel = (job) => ask(`/v1/jobs/${job}?mode=cancel`, { method: "PATCH" });

// Both return the location of the savepoint, once it is written.
export async function savepoint(job, directory) {
  const body = directory ? { "target-directory": directory } : {};
  return written(job, await ask(`/v1/jobs/${job}/savepoints`, { method: "POST", body }));
}

export async function stop(job, directory, drain) {
  const body = directory ? { drain, targetDirectory: directory } : { drain };
  return written(job, await ask(`/v1/jobs/${job}/stop`, { method: "POST", body }));
}

async function written(job, answer) {
  const request = JSON.parse(answer)["request-id"];
  for (;;) {
    const path = `/v1/jobs/${job}/savepoints/${request}?wait_ms=20000`;
    const { status, operation } = JSON.parse(await ask(path, { patience: 60_000 }));
    if (status.id !== "COMPLETED") continue;
    const failure = operation?.["failure-cause"];
    if (failure) throw new Error(failure["stack-trace"]?.split("\n")[0] ?? failure.class);
    return operation.location;
  }
}
