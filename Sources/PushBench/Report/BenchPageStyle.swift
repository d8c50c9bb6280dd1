/// The page's style sheet. Colour-blind readers can distinguish the plots' colours (Okabe and Ito's
/// set, darker or lighter by mode).
enum BenchPageStyle {
  static let text = """
    :root {
      color-scheme: light dark;
      --page: #f6f7f9; --card: #ffffff; --ink: #1b1f24; --quiet: #626c78; --rule: #dfe3e8;
      --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #b0468c;
      --c4: #a67c00; --c5: #3a9bd9; --c6: #6b4fbb; --c7: #5f6b76;
    }
    @media (prefers-color-scheme: dark) {
      :root {
        --page: #14171b; --card: #1d2126; --ink: #e8ebee; --quiet: #98a2ad; --rule: #333a42;
        --c0: #56b4e9; --c1: #ff8c42; --c2: #2fcf9f; --c3: #e58ac4;
        --c4: #f0c94a; --c5: #8fd0ff; --c6: #ab94f5; --c7: #aab4be;
      }
    }
    * { box-sizing: border-box; }
    body {
      margin: 0; background: var(--page); color: var(--ink);
      font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
    }
    main { max-width: 1240px; margin: 0 auto; padding: 32px 24px 48px; }
    h1 { margin: 0; font-size: 28px; letter-spacing: -0.01em; }
    h2 { margin: 40px 0 14px; font-size: 19px; }
    h3 { margin: 0; font-size: 13px; font-weight: 600; color: var(--quiet); }
    header p { margin: 4px 0 0; }
    .quiet { color: var(--quiet); font-size: 13px; margin: 0; }
    .cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(200px, 1fr)); gap: 14px; margin-top: 26px; }
    .card, figure, .wide { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; }
    .card { padding: 14px 16px; }
    .figure { margin: 2px 0; font-size: 26px; font-weight: 650; font-variant-numeric: tabular-nums; }
    .plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(460px, 100%), 1fr)); gap: 14px; }
    figure { margin: 0; padding: 14px 16px 8px; }
    figcaption { font-weight: 600; }
    .legend {
      display: flex; flex-wrap: wrap; gap: 2px 16px; margin: 4px 0 0; padding: 0;
      list-style: none; font-size: 13px; color: var(--quiet);
    }
    .legend li::before {
      content: ""; display: inline-block; width: 10px; height: 10px; margin-right: 6px;
      border-radius: 3px; background: var(--c);
    }
    svg { display: block; width: 100%; height: auto; margin-top: 6px; }
    .c0 { --c: var(--c0); } .c1 { --c: var(--c1); } .c2 { --c: var(--c2); } .c3 { --c: var(--c3); }
    .c4 { --c: var(--c4); } .c5 { --c: var(--c5); } .c6 { --c: var(--c6); } .c7 { --c: var(--c7); }
    .line { fill: none; stroke: var(--c); stroke-width: 2.5; stroke-linejoin: round; stroke-linecap: round; }
    .dot { fill: var(--c); stroke: var(--card); stroke-width: 1.5; }
    .bar { fill: var(--c); }
    .grid { stroke: var(--rule); stroke-width: 1; }
    .base { stroke: var(--quiet); stroke-width: 1; }
    text { fill: var(--quiet); font-size: 12px; font-family: inherit; font-variant-numeric: tabular-nums; }
    text.value { fill: var(--ink); }
    .wide { overflow-x: auto; }
    table { border-collapse: collapse; width: 100%; font-size: 13px; font-variant-numeric: tabular-nums; }
    th, td { padding: 7px 10px; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--rule); }
    th { color: var(--quiet); font-weight: 600; }
    tbody tr:last-child td { border-bottom: none; }
    footer { margin-top: 28px; color: var(--quiet); font-size: 13px; }
    footer p { margin: 2px 0; }
    """
}
