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
    { name: "ε", wants: ["epsilon"], about: "Pure differential privacy: no result becomes likelier by more than the factor e^ε because one person is in the data.",
      promise: (v) => bounds.approximate(v.epsilon, 0), call: (v) => `pure_dp(epsilon=${v.epsilon})` },
    { name: "ε and δ", wants: ["epsilon", "delta"], about: "Approximate differential privacy: the factor e^ε again, but for δ of all probability, which may be given away.",
      promise: (v) => bounds.approximate(v.epsilon, v.delta), call: (v) => `approx_dp(epsilon=${v.epsilon}, delta=${v.delta})` },
    { name: "ρ-zCDP", wants: ["rho"], about: "Zero-concentrated: the Rényi divergence of every order is at most ρ times the order. What budgets of tables are written in.",
      promise: (v) => bounds.concentrated(v.rho), call: (v) => `zcdp(rho=${v.rho})` },
    { name: "μ-GDP", wants: ["mu"], about: "Gaussian: as hard as telling a normal law from the same one moved by μ standard deviations.",
      promise: (v) => bounds.gaussian(v.mu), call: (v) => `gdp(mu=${v.mu})` },
    { name: "DP-SGD", wants: ["rate", "sigma", "steps"], about: "A training run: batches drawn at random, gradients clipped, Gaussian noise of sigma times the clip on their sum. All steps are released.",
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

  function people(count, words) {
    const icons = [];
    for (let i = 0; i < 100; i++) {
      const x = (i % 10) * 12 + 6, y = Math.floor(i / 10) * 14 + 4;
      icons.push(`<path class="${i < count ? "accused" : "person"}" d="M${x - 2.2},${y} a2.2,2.2 0 1 0 4.4,0 a2.2,2.2 0 1 0 -4.4,0 M${x - 4},${y + 9} v-3 a4,3.4 0 0 1 8,0 v3 z"/>`);
    }
    return SVG(icons, 120, 142, words);
  }

  function drawPeople() {
    const a = bounds.even(promise);
    const few = Math.floor(100 * a), many = Math.ceil(100 * (1 - a));
    $("without").innerHTML = people(few, `${few} of 100 are accused`);
    $("within").innerHTML = people(many, `${many} of 100 are accused`);
    let size = 100;
    while (size < 1e6 && Math.floor(size * a) < 1) size *= 10;
    const least = Math.floor(size * a), most = Math.ceil(size * (1 - a));
    $("sentence").textContent = least < 1
      ? "Fewer than 1 of 1,000,000 possible results need to mislead the attacker: nearly every result gives the answer away."
      : `The best attacker who errs equally often either way: if you are not in the data, as few as ${grouped(least)} of ${grouped(size)} possible results make them think you are. If you are, at most ${grouped(most)} of ${grouped(size)} do.`;
  }

  function drawNumbers() {
    const quoted = notion.wants.includes("epsilon") ? [] : [1e-5, 1e-6, 1e-8];
    const factor = (e) => (e > 600 ? "beyond 1e260" : text(bounds.up(Math.exp(e)), 3, 1));
    const rows = [
      ["found, if 1 % of the others are accused", `at most ${percent(promise.hits(0.01), 1)}`],
      ["found, if 0.1 % of the others are accused", `at most ${percent(promise.hits(0.001), 1)}`],
      ["right about a coin flip (50 % is guessing)", `at most ${percent(bounds.accuracy(promise), 1)}`],
      // With a delta a single result may be likelier by any factor, with that probability.
      ...(quoted.length || notion.wants.includes("delta") ? [] : [["one result likelier by a factor of", `at most ${factor(values.epsilon)}`]]),
      ...quoted.map((d) => [`epsilon at delta ${d.toExponential().replace("-", "\u2011")}`, `at most ${text(promise.epsilon(d), 4, 1)}`]),
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
    parts.push(`<text x="${X(0.5)}" y="362" text-anchor="middle">false alarms: accused, not in the data</text>`);
    parts.push(`<text x="${X(0)}" y="13">missed: in the data, not accused</text>`);
    $("curve").innerHTML = SVG(parts, 366, 368, "Trade-off curve: the fewest misses for each share of false alarms");
    $("alpha-said").textContent = exact(alpha);
    $("alpha").setAttribute("aria-valuetext", `${exact(alpha)} false alarms`);
    const e = Math.log(-slope), left = 1 - misses + slope * alpha, crosses = left < 1e-9 ? 0 : left;
    const dotted = e > 0.001 && left > -1e-6 ? ` The dotted tangent has the slope −e^ε for ε about ${text(e, 2, 0)}; where it meets the axis it leaves δ of about ${text(crosses, 2, 0)}.` : "";
    $("tangent").textContent = `An attacker who accuses ${exact(alpha)} of those who are not in the data misses at least ${percent(misses, -1)} of those who are, and finds at most ${percent(hits, 1)}.${dotted}`;
  }

  function drawBeliefs() {
    const odd = bounds.exceptions(promise), own = Number((10 ** (-6 + 5.95 * Number($("prior").value) / 1000)).toPrecision(2));
    $("beliefs").innerHTML = [0.01, 0.001, own].map((prior) => {
      const belief = bounds.belief(promise, prior, odd);
      return `<span class="row">from ${exact(prior)} to at most ${percent(belief, 1)}</span><div class="belief"><span style="width:${(100 * belief).toFixed(2)}%"></span><i style="left:${(100 * prior).toFixed(2)}%"></i></div>`;
    }).join("");
    $("prior-said").textContent = exact(own);
    $("prior").setAttribute("aria-valuetext", exact(own));
    $("exceptions").textContent = odd ? "Except in at most 1 of 100 cases: rare results of this promise can convince anybody, and are set apart." : "Whatever the result is.";
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
    const more = other ? ` ${other.words[0].toUpperCase()}${other.words.slice(1)} would do as well: within ${within(other)}.` : "";
    $("noise").textContent = `With ${words}, 95 of 100 answers are within ${within({ error })} of the true count.${more} The noise does not depend on the count.`;
  }

  function draw() {
    if (notion.promise) {
      promise = notion.promise(values);
      $("read").textContent = "";
    } else {
      const node = bounds.node(grid, values.rate, values.sigma, values.steps);
      promise = node.promise;
      $("read").textContent = `Read at share ${node.rate}, sigma ${node.sigma}, ${grouped(node.steps)} steps: what lies between nodes is read at the next that promises less. This page says nothing about how good the model is.`;
    }
    $("command").textContent = `tallystick explain "${notion.call(values)}"`;
    drawPeople(); drawNumbers(); drawCurve(); drawBeliefs(); drawCount();
  }

  function choose(chosen) { notion = chosen; $("about").textContent = notion.about; makeSliders(); draw(); }
  $("notions").innerHTML = NOTIONS.map((each, i) => `<label><input type="radio" name="notion" value="${i}"${i ? "" : " checked"}>${each.name}</label>`).join("");
  $("notions").addEventListener("change", (event) => choose(NOTIONS[Number(event.target.value)]));
  $("alpha").addEventListener("input", drawCurve);
  $("prior").addEventListener("input", drawBeliefs);
  $("again").addEventListener("click", () => { draws = []; drawCount(); });
  $("hold").addEventListener("click", () => { held = { promise, words: notion.call(values) }; $("held").textContent = `dashed: ${held.words}`; drawCurve(); });
  choose(notion);
})();
