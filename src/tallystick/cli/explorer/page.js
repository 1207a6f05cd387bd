(() => {
  const $ = (id) => document.getElementById(id);
  const { text } = bounds;
  const SVG = (parts, width, height, label) => `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${label}">${parts.join("")}</svg>`;
  const percent = (x, side) => (side > 0 && x >= 1 ? "100 %" : side < 0 && x <= 0 ? "0 %" : `${text(100 * x, 3, side)} %`);
  const exact = (x) => `${Number((100 * x).toPrecision(2))} %`; // of numbers with two digits
  const grouped = (n) => String(n).replace(/\B(?=(\d{3})+(?!\d))/g, ",");

  /* A parameter is a slider on a logarithmic scale with a field beside it, or a slider over the nodes of the grid. */
  const P = {
    epsilon: { label: "epsilon (ε)", low: 0.01, high: 20, start: 1 },
    delta: { label: "delta (δ)", low: 1e-10, high: 0.01, start: 1e-6 },
    rho: { label: "rho (ρ)", low: 1e-4, high: 20, start: 0.5 },
    mu: { label: "mu (μ)", low: 0.01, high: 8, start: 1 },
    rate: { label: "share per batch", nodes: grid.rates, start: 0.01 },
    sigma: { label: "noise (sigma)", nodes: grid.sigmas, start: 1 },
    steps: { label: "steps", nodes: grid.steps, start: 10000 },
  };
  const NOTIONS = [
    { id: "pure", name: "ε", python: (v) => `pure_dp(epsilon=${v.epsilon})`, wants: ["epsilon"], about: "Pure differential privacy: no result is more than e^ε times as likely because one person is in the data.",
      promise: (v) => bounds.approximate(v.epsilon, 0), call: (v) => `pure_dp(epsilon=${v.epsilon})` },
    { id: "approx", name: "ε and δ", python: (v) => `approx_dp(epsilon=${v.epsilon}, delta=${v.delta})`, wants: ["epsilon", "delta"], about: "Approximate differential privacy: the factor e^ε, apart from results with total probability δ.",
      promise: (v) => bounds.approximate(v.epsilon, v.delta), call: (v) => `approx_dp(epsilon=${v.epsilon}, delta=${v.delta})` },
    { id: "zcdp", name: "ρ-zCDP", python: (v) => `zcdp(rho=${v.rho})`, wants: ["rho"], about: "Zero-concentrated: the Rényi divergence of every order is at most ρ times the order. Budgets of tables are usually written in ρ.",
      promise: (v) => bounds.concentrated(v.rho), call: (v) => `zcdp(rho=${v.rho})` },
    { id: "gdp", name: "μ-GDP", python: (v) => `gdp(mu=${v.mu})`, wants: ["mu"], about: "Gaussian: as hard as telling a normal distribution from the same one moved by μ standard deviations.",
      promise: (v) => bounds.gaussian(v.mu), call: (v) => `gdp(mu=${v.mu})` },
    { id: "dpsgd", name: "DP-SGD", python: (v) => `gaussian(sigma=${v.sigma}).sampled(rate=${v.rate}) * ${v.steps}`, wants: ["rate", "sigma", "steps"], about: "A training run: random batches, clipped gradients, and Gaussian noise of sigma times the clipping norm on their sum. Every step is published.",
      promise: null, call: (v) => `${v.steps} * gaussian(sigma=${v.sigma}).sampled(rate=${v.rate})` },
  ];
  const values = Object.fromEntries(Object.entries(P).map(([name, p]) => [name, p.start]));
  let notion = NOTIONS[0], held = null, promise = null, draws = [];

  const place = (p, x) => p.nodes ? p.nodes.indexOf(x) : Math.round(1000 * Math.log(x / p.low) / Math.log(p.high / p.low));
  const at = (p, i) => p.nodes ? p.nodes[i] : Number((p.low * (p.high / p.low) ** (i / 1000)).toPrecision(3));

  function makeSliders() {
    $("sliders").innerHTML = notion.wants.map((name) => {
      const p = P[name], low = p.nodes ? p.nodes[0] : p.low, high = p.nodes ? p.nodes.at(-1) : p.high;
      return `<div class="slider"><label for="s-${name}">${p.label}</label>` +
        `<input type="range" id="s-${name}" min="0" max="${p.nodes ? p.nodes.length - 1 : 1000}" aria-valuetext="">` +
        `<input type="number" id="n-${name}" step="any" min="${low}" max="${high}" aria-label="${p.label}, typed">` +
        `<span class="ends" aria-hidden="true"><span>${low}</span><span>${grouped(high)}</span></span></div>`;
    }).join("");
    for (const name of notion.wants) {
      const p = P[name], slider = $(`s-${name}`), field = $(`n-${name}`);
      const show = () => { slider.setAttribute("aria-valuetext", `${p.label} ${values[name]}`); };
      slider.value = nearest(p, values[name]); field.value = values[name]; show();
      slider.addEventListener("input", () => { values[name] = at(p, Number(slider.value)); field.value = values[name]; show(); draw(); });
      field.addEventListener("input", () => {
        const x = Number(field.value), low = Number(field.min), high = Number(field.max);
        const fits = field.value !== "" && x >= low && x <= high && (name !== "steps" || Number.isInteger(x));
        field.setAttribute("aria-invalid", String(!fits));
        $("read").textContent = fits ? "" : `${p.label}: a ${name === "steps" ? "whole " : ""}number from ${low} to ${grouped(high)}`;
        if (fits) { values[name] = x; slider.value = nearest(p, x); show(); draw(); }
      });
    }
  }
  const nearest = (p, x) => p.nodes ? Math.max(0, p.nodes.findLastIndex((node) => node <= x)) : place(p, x);

  /* A hundred possible results in ten rows: the first ones are filled. A dash pattern makes dots of a line. */
  function dots(count, words) {
    const rows = (from, to) => [...Array(10).keys()].map((row) => {
      const first = Math.max(from, 10 * row), last = Math.min(to, 10 * row + 10);
      return first < last ? `M${10 + 20 * (first - 10 * row)} ${10 + 20 * row}h${20 * (last - first - 1) + 0.1}` : "";
    }).join("");
    const empty = rows(count, 100);
    return SVG([`<path class="dots-off" d="${empty}"/>`, `<path class="dots-hole" d="${empty}"/>`, `<path class="dots-on" d="${rows(0, count)}"/>`], 200, 200, words);
  }

  /* Numbers that tallystick explain prints, where the page has them; per cent without the sign. */
  const printed = () => promise.printed ?? { epsilon: {}, hits: {}, beliefs: {} };
  const said = (known, x) => (known === undefined ? percent(x, 1) : `${known} %`);

  /* The same rounding as tallystick explain: whole numbers of the smallest power of ten that shows both errors. */
  function drawOdds() {
    const a = printed().even ?? bounds.even(promise);
    const few = Math.round(100 * a), many = Math.round(100 * (1 - a));
    $("without").innerHTML = dots(few, `${few} of 100 dots are filled`);
    $("within").innerHTML = dots(many, `${many} of 100 dots are filled`);
    let size = 100;
    while (size < 1e6 && Math.round(size * a) < 1) size *= 10;
    const out = Math.round(size * a), within = Math.round(size * (1 - a));
    $("sentence").textContent = out < 1
      ? "Nearly every possible result tells the attacker whether you are in the data."
      : `If you are not in the data, about ${grouped(out)} of ${grouped(size)} possible results make the best attacker think you are. If you are, about ${grouped(within)} of ${grouped(size)} do.`;
  }

  function drawNumbers() {
    const quoted = notion.wants.includes("epsilon") ? [] : [1e-5, 1e-6, 1e-8];
    const factor = (e) => (e > 600 ? "beyond 1e260" : text(bounds.up(Math.exp(e)), 3, 1));
    const rows = [
      ["people found, with 1 false accusation per 100", `at most ${said(printed().hits[0.01], promise.hits(0.01))}`],
      ["people found, with 1 false accusation per 1,000", `at most ${said(printed().hits[0.001], promise.hits(0.001))}`],
      ["right guesses when in and out are equally likely", `at most ${said(printed().accuracy, bounds.accuracy(promise))}`],
      // With a delta a single result may be likelier by any factor, with that probability.
      ...(quoted.length || notion.wants.includes("delta") ? [] : [["a result is more likely with you than without you, by a factor of", `at most ${factor(values.epsilon)}`]]),
      ...quoted.map((d) => [`epsilon at delta ${d.toExponential().replace("-", "\u2011")}`, `at most ${printed().epsilon[d] ?? text(promise.epsilon(d), 3, 1)}`]),
    ];
    $("numbers").innerHTML = rows.map(([name, value]) => `<tr><th scope="row">${name}</th><td>${value}</td></tr>`).join("");
  }

  const X = (a) => 46 + 300 * a, Y = (b) => 326 - 300 * b;
  const ALPHAS = [...Array(61).keys()].map((i) => i / 60), SMALL = [1e-4, 5e-4, 0.001, 0.002, 0.004, 0.007, 0.011];
  const places = [...new Set([...ALPHAS, ...SMALL, ...SMALL.map((a) => 1 - a)])].sort((a, b) => a - b);
  const path = (f) => places.map((a, i) => `${i ? "L" : "M"}${X(a).toFixed(1)},${Y(f(a)).toFixed(1)}`).join("");

  function drawCurve() {
    const alpha = Math.min(0.99, Number((10 ** (-4 + 4 * Number($("alpha").value) / 1000)).toPrecision(2)));
    const misses = promise.misses(alpha), hits = promise.hits(alpha);
    const slope = (promise.misses(alpha * 1.0005) - promise.misses(alpha * 0.9995)) / (alpha * 0.001);
    const parts = [];
    for (const tick of [0, 0.25, 0.5, 0.75, 1]) {
      parts.push(`<path class="grid" d="M${X(tick)},${Y(0)}V${Y(1)}M${X(0)},${Y(tick)}H${X(1)}"/>`);
      parts.push(`<text x="${X(tick)}" y="${Y(0) + 17}" text-anchor="middle">${100 * tick} %</text>`, `<text x="${X(0) - 6}" y="${Y(tick) + 4}" text-anchor="end">${100 * tick} %</text>`);
    }
    parts.push(`<path class="axis" d="M${X(0)},${Y(1)}L${X(1)},${Y(0)}"/>`, `<text x="${X(0.5) + 8}" y="${Y(0.5) - 8}">guessing</text>`);
    if (held) parts.push(`<path class="keep" d="${path(held.promise.misses)}"/>`);
    parts.push(`<path class="main" d="${path(promise.misses)}"/>`);
    const top = Math.min(1, misses - slope * alpha), right = slope < 0 ? Math.min(1, alpha - misses / slope) : 1;
    const start = slope < 0 ? alpha + (top - misses) / slope : 0;
    parts.push(`<path class="touch" d="M${X(start)},${Y(top)}L${X(right)},${Y(misses + slope * (right - alpha))}"/>`, `<circle class="dot" cx="${X(alpha)}" cy="${Y(misses)}" r="4.5"/>`);
    parts.push(`<text x="${X(0.5)}" y="362" text-anchor="middle">false accusations: share of people not in the data</text>`);
    parts.push(`<text x="${X(0)}" y="13">misses: share of people in the data</text>`);
    $("curve").innerHTML = SVG(parts, 366, 368, "Trade-off curve: the fewest misses for each share of false accusations");
    $("alpha-said").textContent = exact(alpha);
    $("alpha").setAttribute("aria-valuetext", `${exact(alpha)} false accusations`);
    const e = Math.log(-slope), left = 1 - misses + slope * alpha, crosses = left < 1e-9 ? 0 : left;
    const dotted = e > 0.001 && left > -1e-6 ? ` The dotted tangent has the slope −e^ε for ε about ${text(e, 2, 0)}; where it meets the axis it leaves δ of about ${text(crosses, 2, 0)}.` : "";
    $("tangent").textContent = `An attacker who accuses ${exact(alpha)} of the people who are not in the data finds at most ${percent(hits, 1)} of the people who are.${dotted}`;
  }

  function drawBeliefs() {
    const odd = bounds.exceptions(promise), own = Number((10 ** (-6 + 5.95 * Number($("prior").value) / 1000)).toPrecision(2));
    $("beliefs").innerHTML = [0.01, 0.001, own].map((prior) => {
      const belief = bounds.belief(promise, prior, odd);
      return `<span class="row">a suspicion of ${exact(prior)} grows to at most ${said(printed().beliefs[prior], belief)}</span><div class="belief"><span style="width:${(100 * belief).toFixed(2)}%"></span><i style="left:${(100 * prior).toFixed(2)}%"></i></div>`;
    }).join("");
    $("prior-said").textContent = exact(own);
    $("prior").setAttribute("aria-valuetext", exact(own));
    $("exceptions").textContent = odd ? "In 99 of 100 cases. Rare results can reveal more." : "Whatever the result is.";
  }

  /* Noise for the picture only: uniform numbers of the browser through the inverse law. */
  const whole = (error) => text(error, 1 + Math.floor(Math.log10(Math.max(1, error))), 1);
  const laplace = (e) => ({ error: bounds.laplaceError(e), words: `whole-number Laplace noise of scale ${text(1 / e, 3, 1)}`, draw: (u, w) => Math.floor(Math.log(u) / -e) - Math.floor(Math.log(w) / -e) });
  const bell = (s) => ({ error: bounds.gaussianError(s), words: `Gaussian noise of sigma ${text(s, 3, 1)}`, draw: (u, w) => s * normal(u, w) });
  const wholeBell = (s) => ({ ...bell(s), error: bounds.integerGaussianError(s), words: `whole-number Gaussian noise of sigma ${text(s, 3, 1)}`, draw: (u, w) => Math.round(s * normal(u, w)) });
  const within = (law) => `${Number.isInteger(law.error) ? whole(law.error) : text(law.error, 3, 1)}`;
  function noises() { // the narrower first
    if (notion.name === "ρ-zCDP") return [wholeBell(Math.sqrt(1 / (2 * values.rho)))];
    if (notion.name === "μ-GDP") return [bell(1 / values.mu)];
    const laws = [laplace(values.epsilon)];
    if (notion.name !== "ε") laws.push(bell(bounds.gaussianSigma(values.epsilon, values.delta)));
    return laws.sort((a, b) => a.error - b.error);
  }
  const normal = (u, w) => Math.sqrt(-2 * Math.log(u)) * Math.cos(2 * Math.PI * w);

  function drawCount() {
    const training = notion.name === "DP-SGD";
    document.querySelector(".count").hidden = training;
    if (training) return;
    const [{ error, words, draw: law }, other] = noises();
    if (!draws.length) draws = Array.from({ length: 20 }, () => [1 - Math.random(), 1 - Math.random()]);
    const reach = [20, 60, 200, 600, 2000].find((most) => most >= 1.2 * error) || 1.2 * error, x = (n) => 180 + 170 * (n - 120) / reach;
    const parts = [`<rect class="band" x="${x(120 - error).toFixed(1)}" y="12" width="${Math.max(1, x(error) - x(-error)).toFixed(1)}" height="60"/>`, `<path class="axis" d="M10,72H350M${x(120)},8V72"/>`];
    draws.forEach(([u, w], i) => { const at = x(120 + law(u, w)); if (at > 5 && at < 355) parts.push(`<circle class="drawn" cx="${at.toFixed(1)}" cy="${18 + (i % 10) * 5.2}" r="3"/>`); });
    parts.push(`<text x="${x(120)}" y="88" text-anchor="middle">120</text>`, `<text x="10" y="88">${Math.round(120 - reach)}</text>`, `<text x="350" y="88" text-anchor="end">${Math.round(120 + reach)}</text>`);
    $("count").innerHTML = SVG(parts, 360, 92, "Twenty noisy counts around 120, and the band that holds 95 of 100");
    const more = other ? ` ${other.words[0].toUpperCase()}${other.words.slice(1)} would also do: within ${within(other)}.` : "";
    $("noise").textContent = `With ${words}, 95 of 100 answers are within ${within({ error })} of the true count.${more} The noise does not depend on the count.`;
  }

  function draw() {
    if (notion.promise) {
      promise = notion.promise(values);
      $("read").textContent = "";
    } else {
      const node = bounds.node(grid, values.rate, values.sigma, values.steps);
      promise = node.promise;
      $("read").textContent = `Shown for share ${node.rate}, sigma ${node.sigma}, ${grouped(node.steps)} steps: values between the nodes of the grid are rounded to the next node with less privacy. This page says nothing about the quality of the model.`;
    }
    $("command").textContent = `tallystick explain "${notion.call(values)}"`;
    $("python").textContent = `import tallystick as ts\nts.${notion.python(values)}`;
    drawOdds(); drawNumbers(); drawCurve(); drawBeliefs(); drawCount();
    remember();
  }

  /* The address holds the state, so that a link shows the same page. */
  function remember() {
    const words = [`guarantee=${notion.id}`, ...notion.wants.map((name) => `${name}=${values[name]}`)];
    if (typeof history !== "undefined") history.replaceState(null, "", `#${words.join("&")}`);
  }
  function recalled() {
    const words = new URLSearchParams(typeof location === "undefined" ? "" : location.hash.slice(1));
    const known = NOTIONS.find((each) => each.id === words.get("guarantee"));
    for (const name of known ? known.wants : []) {
      const x = Number(words.get(name)), p = P[name], low = p.nodes ? p.nodes[0] : p.low, high = p.nodes ? p.nodes.at(-1) : p.high;
      if (words.has(name) && x >= low && x <= high) values[name] = x;
    }
    return known || NOTIONS[0];
  }

  function choose(chosen) { notion = chosen; $("about").textContent = notion.about; makeSliders(); draw(); }
  const PRESETS = [
    { words: "epsilon 0.1", id: "pure", values: { epsilon: 0.1 } },
    { words: "epsilon 1", id: "pure", values: { epsilon: 1 } },
    { words: "epsilon 8, delta 1e-5", id: "approx", values: { epsilon: 8, delta: 1e-5 } },
    { words: "a table: rho 0.1", id: "zcdp", values: { rho: 0.1 } },
    { words: "a training run", id: "dpsgd", values: { rate: 0.01, sigma: 1, steps: 10000 } },
  ];
  const choices = () => NOTIONS.map((each, i) => `<label><input type="radio" name="notion" value="${i}"${each === notion ? " checked" : ""}>${each.name}</label>`).join("");
  const show = (chosen) => { notion = chosen; $("notions").innerHTML = choices(); choose(chosen); };
  $("notions").addEventListener("change", (event) => choose(NOTIONS[Number(event.target.value)]));
  $("presets").innerHTML = PRESETS.map((each, i) => `<button type="button" value="${i}">${each.words}</button>`).join(" ");
  $("presets").addEventListener("click", (event) => {
    const chosen = PRESETS[Number(event.target.value)];
    if (!chosen || event.target.value === "") return;
    Object.assign(values, chosen.values);
    show(NOTIONS.find((each) => each.id === chosen.id));
  });
  $("copy").addEventListener("click", () => {
    const copied = () => { $("copied").textContent = "copied"; };
    if (typeof navigator !== "undefined" && navigator.clipboard) navigator.clipboard.writeText($("python").textContent).then(copied, () => {});
  });
  $("alpha").addEventListener("input", drawCurve);
  $("prior").addEventListener("input", drawBeliefs);
  $("again").addEventListener("click", () => { draws = []; drawCount(); });
  $("hold").addEventListener("click", () => { held = { promise, words: notion.call(values) }; $("held").textContent = `dashed: ${held.words}`; drawCurve(); });
  show(recalled());
})();
