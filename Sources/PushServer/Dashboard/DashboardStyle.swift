extension DashboardAssets {
  /// Light or dark as the system is; tables become lists where there is no room for columns.
  static let style = """
    :root {
      --page: #f5f6f8; --card: #ffffff; --text: #1b1f27; --soft: #5b6472; --line: #d9dde4; --accent: #1f5fd0;
      --on-accent: #ffffff; --good: #14713b; --good-back: #e2f4e8; --bad: #a61b1b; --bad-back: #fde8e6;
      --warn: #7a4d00; --warn-back: #fdf1d7; --quiet-back: #e8ebf0; --edge: #7f8796;
      color-scheme: light dark;
    }
    @media (prefers-color-scheme: dark) {
      :root {
        --page: #14171c; --card: #1d2129; --text: #e7eaf0; --soft: #a0a8b6; --line: #343b47; --accent: #7cabff;
        --on-accent: #0d1a33; --good: #7fdba0; --good-back: #17352a; --bad: #ff9d94; --bad-back: #42201f;
        --warn: #f3c669; --warn-back: #3d3117; --quiet-back: #2a303b; --edge: #727b8b;
      }
    }
    * { box-sizing: border-box; }
    body {
      margin: 0; background: var(--page); color: var(--text);
      font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
    }
    a { color: var(--accent); text-underline-offset: .15em; }
    code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .92em; overflow-wrap: anywhere; }
    header {
      display: flex; flex-wrap: wrap; gap: .5rem 1.5rem; align-items: center;
      padding: .7rem max(1.5rem, 50% - 620px + 1.5rem);
      background: var(--card); border-bottom: 1px solid var(--line);
    }
    header .brand { font-weight: 700; font-size: 1.1rem; color: var(--text); text-decoration: none; }
    nav { display: flex; gap: 1.1rem; flex: 1; }
    nav a, .spans a { text-decoration: none; padding: .2rem 0; }
    nav a[aria-current] { color: var(--text); font-weight: 600; box-shadow: 0 2px 0 var(--accent); }
    header form { display: flex; gap: .8rem; align-items: center; margin: 0; }
    .who { color: var(--soft); max-width: 14rem; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
    main { max-width: 1240px; margin: 0 auto; padding: 1.2rem 1.5rem 3rem; }
    footer { max-width: 1240px; margin: 0 auto; padding: 0 1.5rem 1.5rem; color: var(--soft); font-size: .85rem; }
    h1 { font-size: 1.5rem; line-height: 1.25; margin: .3rem 0 1rem; overflow-wrap: anywhere; }
    h2 { font-size: 1.05rem; margin: 1.6rem 0 .6rem; }
    h3 { font-size: .95rem; margin: 1rem 0 .3rem; }
    .card {
      background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 1rem 1.2rem;
      margin: 1rem 0; min-width: 0;
    }
    .card > h2:first-child, form.card > h2 { margin-top: 0; }
    .columns { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr)); }
    .columns .card { margin: 0; }

    .alarms { list-style: none; margin: 0 0 1rem; padding: 0; display: grid; gap: .5rem; }
    .alarms li { padding: .6rem .9rem; border-radius: 8px; border-left: 4px solid; overflow-wrap: anywhere; }
    .alarms .critical { background: var(--bad-back); border-color: var(--bad); }
    .alarms .critical strong { color: var(--bad); }
    .alarms .warning { background: var(--warn-back); border-color: var(--warn); }
    .alarms .warning strong { color: var(--warn); }
    .alarms li > a { font-weight: 700; color: inherit; }
    .alarms form { display: inline-block; margin: 0 0 0 .5rem; }
    .alarms .hint { color: inherit; }
    .tiles {
      display: grid; gap: .8rem; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); margin: 0 0 1rem;
    }
    .tiles > div { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: .6rem 1rem; }
    .tiles strong { display: block; font-size: 1.35rem; font-variant-numeric: tabular-nums; }
    .skip { position: absolute; left: -100rem; padding: .5rem 1rem; background: var(--card); }
    .skip:focus { left: .5rem; top: .5rem; z-index: 1; }
    main:focus { outline: none; }
    .unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); margin: 0; }
    #age { margin: 0; font-variant-numeric: tabular-nums; }
    #age.old { color: var(--warn); background: var(--warn-back); border-radius: 1rem; padding: 0 .6rem; }
    .calm p { color: var(--good); margin: 0 0 .5rem; }
    .calm p::before { content: "✓ "; }

    table { width: 100%; border-collapse: collapse; background: var(--card); }
    table.wide, #recent table {
      border: 1px solid var(--line); border-radius: 10px; border-spacing: 0; border-collapse: separate;
    }
    th, td { padding: .5rem .8rem; text-align: left; vertical-align: baseline; }
    tbody tr > *, tfoot tr > * { border-top: 1px solid var(--line); }
    table.dense th, table.dense td { padding: .12rem .8rem; }
    thead a { color: inherit; text-decoration: none; display: inline-block; min-width: 1.5rem; }
    thead a:hover { text-decoration: underline; }
    [aria-sort=descending] a::after { content: " ↓"; }
    [aria-sort=ascending] a::after { content: " ↑"; }
    td[data-label=Who] { min-width: 11rem; }
    td[data-label=Why] { min-width: 13rem; }
    thead th { line-height: 1.5rem; font-size: .82rem; font-weight: 600; color: var(--soft); vertical-align: bottom; }
    tbody th { font-weight: 600; overflow-wrap: anywhere; min-width: 9rem; }
    td { overflow-wrap: anywhere; }
    tbody th .hint {
      font-weight: 400; margin: .15rem 0 0; display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 2;
      overflow: hidden;
    }
    td.time, td.act { white-space: nowrap; }
    td.time .hint { display: block; }
    td.progress { min-width: 9.5rem; }
    td[data-label=App] { min-width: 6rem; }
    tr.over td, tr.over th { color: var(--soft); font-weight: 400; }
    .number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
    table.narrow { background: none; }
    table.narrow td, table.narrow th { padding: .25rem .4rem .25rem 0; }
    #recent td { padding-top: .3rem; padding-bottom: .3rem; }
    .whole, #recent td code { white-space: nowrap; }
    table.narrow tbody tr:first-child > * { border-top: 0; }
    td form { margin: 0; }

    dl { display: grid; grid-template-columns: max-content 1fr; gap: .35rem 1.1rem; margin: 0; }
    .late { color: var(--warn); font-weight: 600; }
    dt { color: var(--soft); }
    dd { margin: 0; overflow-wrap: anywhere; }

    .spark { width: 5rem; height: 1.1rem; margin-right: .6rem; vertical-align: text-bottom; }
    .spark path { fill: var(--accent); }
    #charts h2 { margin: 0; }
    .spans { margin: 0; display: flex; gap: 1rem; }
    .spans a[aria-current] { color: var(--text); font-weight: 600; box-shadow: 0 2px 0 var(--accent); }
    figure { margin: 1rem 0 0; }
    figcaption { display: flex; flex-wrap: wrap; gap: .1rem 1rem; align-items: baseline; }
    figcaption .hint { flex-basis: 100%; }
    .key { font-size: .88rem; color: var(--soft); white-space: nowrap; }
    .key::before {
      content: ""; display: inline-block; width: .8em; height: .8em; margin-right: .4em; border-radius: 2px;
      background: currentcolor; vertical-align: -.05em;
    }
    .key.accepted::before { background: var(--good); }
    .key.others::before { background: var(--bad); }
    .key.stood::before { background: var(--warn-back); outline: 1px solid var(--warn); outline-offset: -1px; }
    .key.half::before { background: var(--accent); }
    .key.most::before { background: var(--soft); }
    .plot { position: relative; margin-top: .4rem; border: solid var(--line); border-width: 1px 0; }
    .plot svg { display: block; width: 100%; height: 7.5rem; }
    .plot .top { position: absolute; top: 0; left: 0; font-size: .78rem; color: var(--soft); }
    .plot .accepted { fill: var(--good); }
    .plot .others { fill: var(--bad); }
    .plot .stood { fill: var(--warn-back); }
    .plot .half, .plot .most {
      fill: none; stroke: var(--accent); stroke-width: 2; vector-effect: non-scaling-stroke; stroke-linecap: round;
      stroke-linejoin: round;
    }
    .plot .most { stroke: var(--soft); stroke-width: 1.5; }
    .funnel { display: block; width: 100%; height: 1.6rem; border-radius: 5px; }
    .funnel .accepted { fill: var(--good); }
    .funnel .others { fill: var(--bad); }
    .funnel .suppressed, .funnel .capped, .funnel .holdout { fill: var(--warn); }
    .funnel .capped { opacity: .65; }
    .funnel .holdout { opacity: .35; }
    .funnel .ended { fill: var(--soft); }
    .funnel .flying { fill: var(--accent); }
    .funnel .unread { fill: var(--line); }
    .key.suppressed::before, .key.capped::before, .key.holdout::before { background: var(--warn); }
    .key.capped::before { opacity: .65; }
    .key.holdout::before { opacity: .35; }
    .key.ended::before { background: var(--soft); }
    .key.flying::before { background: var(--accent); }
    .key.unread::before { background: var(--line); }
    td.bar { width: 40%; }
    .bar svg { display: block; width: 100%; height: .7rem; }
    .bar rect { fill: var(--accent); }
    .amount { margin: 0 0 .5rem; font-variant-numeric: tabular-nums; }
    .amount strong { font-size: 1.35rem; }
    .keys { margin: .5rem 0 0; display: flex; flex-wrap: wrap; gap: .1rem 1.2rem; }
    .phones { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(min(19rem, 100%), 1fr)); }
    .phone { margin: 0; }
    .phone > div {
      background: var(--card); border: 1px solid var(--line); border-radius: 18px; padding: .7rem 1rem;
      overflow-wrap: anywhere;
    }
    .phone p { margin: 0; white-space: pre-line; }
    .phone strong, .phone em { display: block; font-style: normal; }
    .phone figcaption { margin: .3rem 1rem 0; color: var(--soft); font-size: .88rem; }
    ul.hint { padding-left: 1.1rem; }
    .axis { display: flex; justify-content: space-between; font-size: .78rem; color: var(--soft); }

    .badge {
      display: inline-block; padding: .08rem .6rem; border-radius: 1rem; font-size: .82rem; font-weight: 600;
      vertical-align: middle; background: var(--quiet-back); color: var(--text); white-space: nowrap;
    }
    .badge.running, .badge.finished { background: var(--good-back); color: var(--good); }
    .badge.suspended, .badge.stopped, .badge.failed { background: var(--bad-back); color: var(--bad); }
    .badge.paused, .badge.waiting, .badge.held { background: var(--warn-back); color: var(--warn); }

    label { display: block; margin: .8rem 0 .25rem; font-weight: 600; }
    label.choice {
      display: inline-flex; gap: .4rem; align-items: center; margin: .2rem 1rem .2rem 0; font-weight: 400;
      overflow-wrap: anywhere;
    }
    .filter { display: flex; flex-wrap: wrap; gap: .6rem; align-items: center; margin: 0 0 1rem; }
    .filter label, .filter button { margin: 0; }
    .filter input:not([type=checkbox]) { width: 16rem; }
    fieldset {
      border: 1px solid var(--line); border-radius: 8px; margin: 1rem 0; padding: .3rem .9rem .6rem; min-width: 0;
    }
    legend { padding: 0 .4rem; color: var(--soft); }
    input:not([type=checkbox], [type=hidden]), select {
      width: 100%; max-width: 44rem; padding: .5rem .7rem; font: inherit; color: inherit; background: var(--page);
      border: 1px solid var(--edge); border-radius: 7px;
    }
    button {
      font: inherit; font-weight: 600; padding: .45rem 1.1rem; border-radius: 7px; border: 1px solid transparent;
      background: var(--accent); color: var(--on-accent); cursor: pointer; margin-top: .9rem; white-space: nowrap;
    }
    button.quiet, button.danger, .actions button, header button, td button, .alarms button {
      background: none; border-color: var(--edge); color: var(--text); padding: .25rem .8rem; margin: 0;
      font-weight: 500;
    }
    button.danger { color: var(--bad); }
    :focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
    .head { display: flex; flex-wrap: wrap; gap: 0 1.5rem; align-items: baseline; justify-content: space-between; }
    .actions { display: flex; flex-wrap: wrap; gap: .6rem; align-items: center; margin: 0 0 1rem; }
    .summary { color: var(--soft); margin: -.6rem 0 1rem; }
    details > summary {
      display: inline-block; list-style: none; cursor: pointer; padding: .25rem .8rem; border-radius: 7px;
      border: 1px solid var(--edge); color: var(--bad); font-weight: 500;
    }
    details > summary::-webkit-details-marker { display: none; }
    details[open] > summary { color: var(--soft); }
    .asked { display: flex; flex-wrap: wrap; gap: .3rem .8rem; align-items: center; margin-top: .5rem; }
    td details form { margin-top: .4rem; }
    pre {
      background: var(--page); border: 1px solid var(--line); border-radius: 7px; padding: .6rem .8rem;
      margin: .9rem 0 0; white-space: pre-wrap; overflow-wrap: anywhere;
    }
    .empty { color: var(--soft); }
    .error { color: var(--bad); }
    .good { color: var(--good); }
    .card.good { color: inherit; border-color: var(--good); }
    .secret { user-select: all; }
    .hint { color: var(--soft); font-size: .88rem; }
    .login { max-width: 27rem; margin: 8vh auto 0; }
    .card form > button, form.card > button { display: block; }
    .login button { width: 100%; }
    td[data-label=Credential] { min-width: 9.5rem; }
    progress { width: 100%; height: .6rem; accent-color: var(--accent); }
    #stale {
      padding: .5rem .9rem; background: var(--warn-back); color: var(--warn); border-radius: 8px; margin: 0 0 1rem;
    }

    @media (max-width: 46rem) {
      header { padding: .6rem 1rem; }
      footer { padding: 0 1rem 1rem; }
      header form { flex: 1 1 auto; justify-content: space-between; }
      main { padding: .8rem 1rem 2rem; }
      table.wide, table.wide tbody { display: block; border: 0; background: none; }
      table.wide thead, #recent thead {
        position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%);
      }
      table.wide tr {
        display: grid; grid-template-columns: 1fr 1fr; gap: .15rem 1rem; background: var(--card);
        border: 1px solid var(--line); border-radius: 10px; padding: .7rem .9rem; margin-bottom: .7rem;
      }
      table.wide tr > * { border: 0; padding: .1rem 0; text-align: left; white-space: normal; }
      table.wide tr > th { grid-column: 1 / -1; font-size: 1.05rem; }
      table.wide td.time { font-size: .88rem; }
      table.wide td[data-label]::before {
        content: attr(data-label); display: block; color: var(--soft); font-size: .78rem; font-weight: 400;
      }
      table.wide td[data-label=Of], table.wide td[data-label=Why] { grid-column: 1 / -1; }
      .tiles { grid-template-columns: 1fr 1fr; gap: .5rem; }
      table.dense tr {
        grid-template-columns: 1fr auto 4.5rem; padding: .2rem .7rem; margin: 0; border-radius: 0; align-items: center;
      }
      table.dense tr > th {
        grid-column: auto; font-size: .95rem; min-width: 0; overflow: hidden; text-overflow: ellipsis; white-space: nowrap;
      }
      table.dense tr > td { display: none; }
      table.dense tr > td[data-label=State], table.dense tr > td[data-label=Rate] { display: block; }
      table.dense td[data-label]::before, table.dense .spark { display: none; }
      table.dense tr > td.rate { text-align: right; }
      #recent table, #recent tbody { display: block; }
      #recent tr { display: grid; grid-template-columns: 1fr 1fr; padding: .4rem .8rem; }
      #recent tr + tr { border-top: 1px solid var(--line); }
      #recent td { border: 0; padding: .05rem 0; }
    }

    """
}
