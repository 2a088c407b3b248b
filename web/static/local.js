// What "llmprof serve" answers from its machine, to who has its token.

// secret is the token that the address printed by "llmprof serve" brings. The tab keeps it, and the address loses it.
function secret() {
  const address = new URL(location.href), token = address.searchParams.get("token");
  try {
    if (token) sessionStorage.setItem("token", token);
    else return sessionStorage.getItem("token");
  } catch { /* a browser that keeps nothing forgets it with the page */ }
  address.searchParams.delete("token");
  history.replaceState(history.state, "", address);
  return token;
}

export const token = secret();

// local asks what the server answers from its machine.
export async function local(path, options) {
  const response = await fetch(path, { headers: { "X-Llmprof-Token": token }, ...options }).catch((e) => {
    throw options?.signal?.aborted ? e : new Error("llmprof serve does not answer: is it still running?");
  });
  if (!response.ok) throw new Error((await response.text()).trim());
  return response;
}

// lines are those of an answer, as they come.
export async function* lines(response) {
  let rest = "";
  for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
    const all = (rest + part).split("\n");
    rest = all.pop();
    yield* all.filter(Boolean);
  }
}
