"use strict";
/* What a promise allows the best attacker: every number is a bound, rounded to the side that claims less privacy.
   The same formulas as tallystick's in Python; tests/unit/cli/test_explorer.py compares them. No page in here. */
const bounds = (() => {
  const SLACK = 1e-12; // a closed form in doubles is off by a few units in the last place: this is thousands of them
  const SPLITS = [0.01, 0.03, 0.1, 0.3, Math.LN2, 1.5, 3];
  const ROOT2 = Math.SQRT2, ROOTPI = Math.sqrt(Math.PI);
  const up = (x) => (x === 0 || !isFinite(x) ? x : x + Math.abs(x) * SLACK);
  const down = (x) => (x === 0 || !isFinite(x) ? x : x - Math.abs(x) * SLACK);
  const share = (x) => Math.min(1, Math.max(0, x));

  /* The ends of a bracket around the place where a decreasing function falls to a level. */
  function fall(f, level, low, high) {
    for (let i = 0; i < 200 && high - low > 4e-16 * Math.abs(high); i++) {
      const middle = low + (high - low) / 2;
      if (middle <= low || middle >= high) break;
      if (f(middle) <= level) high = middle; else low = middle;
    }
    return [low, high];
  }

  /* Scaled complementary error function for x >= 0: a sum of positive terms near zero, a continued fraction beyond. */
  function erfcx(x) {
    if (x < 1.2) {
      let term = x, sum = x;
      for (let n = 1; term > 1e-18 * sum; n++) sum += term *= (2 * x * x) / (2 * n + 1);
      return Math.exp(x * x) - (2 / ROOTPI) * sum;
    }
    let tail = x;
    for (let n = 160; n > 0; n--) tail = x + n / 2 / tail;
    return 1 / (ROOTPI * tail);
  }
  const phi = (z) => (z < 0 ? 0.5 * Math.exp(-0.5 * z * z) * erfcx(-z / ROOT2) : 1 - phi(-z));
  function quantile(p) { // of the normal law; p is at most one half, so that nothing is lost
    if (p > 0.5) return -quantile(1 - p);
    return -fall((z) => phi(-z), p, 0, 40)[0];
  }

  /* Gaussian: delta at epsilon of mu-GDP, as one difference of scaled functions with its own error on top. */
  function gaussianDelta(mu, epsilon) {
    const near = epsilon / mu - mu / 2, far = epsilon / mu + mu / 2;
    if (near > 39) return 1e-320;
    const second = erfcx(far / ROOT2);
    if (near < 0) {
      const height = Math.exp(-0.5 * near * near);
      return share(up(1 - 0.5 * height * (erfcx(-near / ROOT2) + second)) + 1e-14);
    }
    const first = erfcx(near / ROOT2), scale = 0.5 * Math.exp(-0.5 * near * near);
    return share(up(scale * (Math.max(0, first - second) + 4e-14 * first)) + 1e-320);
  }

  /* Each promise: hits(a) from above, misses(a) from below, epsilon(d) and delta(e) from above. */
  function approximate(epsilon, delta) {
    const e = Math.exp(epsilon), kept = 1 - delta, all = 1 + Math.exp(-epsilon);
    return {
      misses: (a) => share(down(Math.max(kept - e * a, (kept - a) / e) - 2e-16)),
      hits: (a) => share(up(Math.min(delta + e * a, 1 - (kept - a) / e)) + 2e-16),
      delta: (t) => (t >= epsilon ? delta : share(up(delta + kept * -Math.expm1(t - epsilon) / all))),
      epsilon(d) {
        if (d < delta) return Infinity;
        const left = 1 - (d - delta) / kept * all;
        return left <= 0 ? 0 : Math.min(epsilon, Math.max(0, up(epsilon + Math.log(left)) + 4e-16));
      },
    };
  }
  function gaussian(mu) {
    const shift = (a) => quantile(a) + mu, off = (z) => 2e-14 * (1 + Math.abs(z)) * (1 + mu);
    return {
      misses: (a) => (a <= 0 ? 1 : a >= 1 ? 0 : share(down(phi(-shift(a) - off(shift(a)))))),
      hits: (a) => (a <= 0 ? 0 : a >= 1 ? 1 : share(up(phi(shift(a) + off(shift(a)))))),
      delta: (t) => gaussianDelta(mu, t),
      epsilon(d) {
        if (d <= 0) return Infinity;
        const high = mu * mu / 2 + mu * (Math.sqrt(2 * Math.max(0, -Math.log(d))) + 1);
        return gaussianDelta(mu, 0) <= d ? 0 : up(fall((t) => gaussianDelta(mu, t), d, 0, high)[1]);
      },
    };
  }
  /* zCDP: divergence at most rho times the order. At the best order P(E) <= exp(-(sqrt(log 1/Q(E)) - sqrt rho)^2),
     and for its complement likewise; conversions are those of Canonne, Kamath and Steinke at the best real order. */
  function concentrated(rho) {
    const log0 = (t) => rho * t * (1 + t) - t * Math.log1p(1 / t) - Math.log1p(t);
    function delta(epsilon) {
      const slope = (x) => { const t = Math.exp(x); return -(2 * rho * t + rho - epsilon - Math.log1p(1 / t)); };
      const t = Math.exp(fall(slope, 0, -40, 40)[1]);
      return share(up(Math.exp(Math.min(0, log0(t) - t * epsilon))) + 1e-320);
    }
    const apart = delta(0), root = Math.sqrt(rho);
    return {
      delta,
      misses(a) {
        if (a <= 0) return 1;
        if (a >= 1) return 0;
        const ahead = Math.sqrt(-Math.log(a)), behind = Math.sqrt(-Math.log1p(-a));
        const first = ahead > root ? -Math.expm1(-((ahead - root) ** 2)) : 0;
        return share(down(Math.max(first, Math.exp(-((behind + root) ** 2)), 1 - apart - a) - 1e-15));
      },
      hits(a) {
        if (a <= 0 || a >= 1) return share(a);
        const ahead = Math.sqrt(-Math.log(a)), behind = Math.sqrt(-Math.log1p(-a));
        const first = ahead > root ? Math.exp(-((ahead - root) ** 2)) : 1;
        return share(up(Math.min(first, -Math.expm1(-((behind + root) ** 2)), apart + a)) + 1e-15);
      },
      epsilon(d) {
        if (d <= 0) return Infinity;
        const order = (x) => { const t = Math.exp(x); return -(rho * t * t + Math.log1p(t)); };
        const t = Math.exp(fall(order, Math.log(d), -40, 40)[1]);
        return Math.max(0, up((log0(t) - Math.log(d)) / t));
      },
    };
  }
  /* Finitely many points (epsilon, delta) that hold in both directions; what lies between them is not known. */
  function points(pairs) {
    const lines = pairs.map(([e, d]) => [Math.exp(Math.min(700, e)), d, e]);
    return {
      misses: (a) => share(down(Math.max(...lines.map(([e, d]) => Math.max(1 - d - e * a, (1 - d - a) / e))) - 4e-16)),
      hits: (a) => share(up(Math.min(...lines.map(([e, d]) => Math.min(d + e * a, 1 - (1 - d - a) / e)))) + 4e-16),
      delta: (t) => Math.min(1, ...lines.filter(([, , e]) => e <= t).map(([, d]) => d)),
      epsilon: (d) => Math.min(Infinity, ...lines.filter((line) => line[1] <= d).map((line) => line[2])),
    };
  }

  /* Read-outs, the same for every promise. */
  function even(promise) { // the share a with as many misses as false alarms, from below
    if (promise.misses(0.5) >= 0.5) return 0.5;
    if (promise.misses(1e-12) < 1e-12) return 0;
    return Math.exp(fall((x) => promise.misses(Math.exp(x)) - Math.exp(x), -1e-300, Math.log(1e-12), Math.log(0.5))[0]) * (1 - SLACK);
  }
  function exceeded(promise, slack) { // P(L > e + s) (1 - e^-s) <= delta(e): every split of a loss is a bound
    if (slack <= 0) return promise.epsilon(0);
    return Math.min(...SPLITS.map((s) => promise.epsilon(-slack * Math.expm1(-s) * (1 - 1e-15)) + s));
  }
  const believe = (prior, loss) => (loss === Infinity ? 1 : share(up(1 / (1 + (1 - prior) / prior * Math.exp(-loss)))));
  function belief(promise, prior, slack) { return prior <= 0 || prior >= 1 ? prior : believe(prior, exceeded(promise, slack)); }
  /* No exceptions where "whatever the result" can be said at almost the same belief: the rule of the privacy card. */
  function exceptions(promise) {
    return belief(promise, 0.01, 0) <= 1.02 * belief(promise, 0.01, 0.01) ? 0 : 0.01;
  }
  const accuracy = (promise) => share(up((1 + promise.delta(0)) / 2));

  /* Noise on a count, where one person moves it by one: how far off it is at most, 95 times of 100. */
  function laplaceError(epsilon) { // two-sided geometric noise: the least k with P(|X| > k) <= 5 %
    const beyond = (k) => up(2 * Math.exp(-epsilon * (k + 1)) / (1 + Math.exp(-epsilon)));
    let k = Math.max(0, Math.floor(Math.log(40 / (1 + Math.exp(-epsilon))) / epsilon) - 3);
    while (beyond(k) > 0.05) k++;
    return k;
  }
  function integerGaussianError(sigma) { // the discrete Gaussian
    const weight = (n) => Math.exp(-0.5 * (n / sigma) ** 2), far = Math.ceil(40 * sigma);
    let total = 1, k = far, tail = 0;
    for (let n = far; n > 0; n--) total += 2 * weight(n);
    while (k > 0 && up(tail + 2 * weight(k)) <= 0.05 * total) tail += 2 * weight(k--);
    return k;
  }
  const gaussianError = (sigma) => up(-quantile(0.025) * sigma);
  function gaussianSigma(epsilon, delta) { // the least noise for which a count is (epsilon, delta)-private
    let low = -12, high = 8;
    for (let i = 0; i < 80; i++) {
      const middle = (low + high) / 2;
      if (gaussianDelta(Math.exp(middle), epsilon) <= delta) low = middle; else high = middle;
    }
    return up(Math.exp(-low));
  }

  /* Certified bounds of DP-SGD at the nodes of a grid (made by docs/explorer.py). Between nodes the next worse one is
     taken: epsilon grows with rate and steps and falls with sigma. */
  function node(grid, rate, sigma, steps) {
    const r = grid.rates.findIndex((x) => x >= rate), t = grid.steps.findIndex((x) => x >= steps);
    const s = grid.sigmas.findLastIndex((x) => x <= sigma);
    if (r < 0 || s < 0 || t < 0 || !(rate > 0) || !(steps > 0)) return null;
    const width = grid.shares.length + grid.deltas.length + 1;
    const start = ((r * grid.sigmas.length + s) * grid.steps.length + t) * width;
    const letter = (i) => { const c = grid.codes.charCodeAt(i); return c - 35 - (c > 60) - (c > 92); }; // no <, no \\
    const value = (i) => { const n = letter(2 * (start + i)) * grid.base + letter(2 * (start + i) + 1); return n && Math.exp(grid.log + n * grid.by); };
    const apart = Math.min(1, value(0)), deltas = [...grid.shares.map((x) => x * apart), ...grid.deltas];
    const pairs = [[0, apart], ...deltas.map((d, i) => [value(i + 1), d])];
    const code = (i) => { const at = 3 * (start / width * 9 + i); return (letter2(at) * grid.base + letter2(at + 1)) * grid.base + letter2(at + 2); };
    const letter2 = (i) => { const c = grid.shown.charCodeAt(i); return c - 35 - (c > 60) - (c > 92); };
    /* What tallystick explain prints, with the same digits. */
    const said = (i) => { const n = code(i); return n && Number(`${(n - 1) % 900 + 100}e${Math.floor((n - 1) / 900) - 9}`); };
    const printed = { epsilon: { 1e-5: said(0), 1e-6: said(1), 1e-8: said(2) }, hits: { 0.01: said(3), 0.001: said(4) },
      beliefs: { 0.01: said(5), 0.001: said(6) }, accuracy: said(7), even: code(8) / 1e6 };
    return { rate: grid.rates[r], sigma: grid.sigmas[s], steps: grid.steps[t], promise: { ...points(pairs), printed } };
  }

  /* Decimal text that is never on the wrong side: the last digit goes up, or down. */
  function text(x, digits, side) {
    if (x === 0 || !isFinite(x)) return x === 0 ? "0" : "∞";
    const places = Math.min(20, Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(x)) + 1e-9)));
    let shown = Number(x.toFixed(places));
    const unit = Number("1e" + -places);
    if (side > 0 && shown < x) shown += unit;
    if (side < 0 && shown > x) shown -= unit;
    return shown.toFixed(places);
  }
  return { approximate, gaussian, concentrated, points, node, even, exceeded, belief, exceptions, accuracy,
    laplaceError, integerGaussianError, gaussianError, gaussianSigma, text, up, phi, quantile };
})();
