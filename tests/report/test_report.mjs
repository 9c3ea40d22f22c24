// The report in a headless browser: it loads from a file without a request, draws, answers to mouse and keyboard, and is accessible.
// node --test test_report.mjs, with SHARDSIM_PROGRAM, SHARDSIM_SOURCE and SHARDSIM_NPM (where playwright-core and axe-core lie).
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {existsSync, mkdtempSync, readFileSync, rmSync, statSync} from 'node:fs';
import {createRequire} from 'node:module';
import os from 'node:os';
import path from 'node:path';
import {after, before, test} from 'node:test';
import {pathToFileURL} from 'node:url';

const {SHARDSIM_PROGRAM, SHARDSIM_SOURCE, SHARDSIM_NPM, SHARDSIM_CHROMIUM} = process.env;
const require = createRequire(path.join(SHARDSIM_NPM, 'node_modules', 'index.js'));
const {chromium} = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const folder = mkdtempSync(path.join(os.tmpdir(), 'shardsim-report-'));
const pictures = path.join(SHARDSIM_NPM, 'pictures');  // to look at
let browser, small;

function run(name, ...options) {
  const place = path.join(folder, name);
  execFileSync(SHARDSIM_PROGRAM, ['run', path.join(SHARDSIM_SOURCE, 'scenarios/gpt2.yaml'), '-o', place, '--quiet', '--set', 'expect={}', ...options]);
  return path.join(place, 'report.html');
}

before(async () => {
  small = run('small', '--set', 'steps=4');
  browser = await chromium.launch({executablePath: SHARDSIM_CHROMIUM, args: ['--no-sandbox', '--allow-file-access-from-files']});
});
after(async () => {
  await browser?.close();
  rmSync(folder, {recursive: true, force: true});
});

/** A page with the report on it; whatever it complains about or asks the network for is in `problems`. */
async function open(file, {width = 1280, theme = 'light', chart = '#memory canvas'} = {}) {
  const context = await browser.newContext({viewport: {width, height: 900}, colorScheme: theme, reducedMotion: 'reduce'});
  const page = await context.newPage(), problems = [];
  page.on('console', (message) => { if (['error', 'warning'].includes(message.type())) problems.push(message.text()); });
  page.on('pageerror', (error) => problems.push(error.message));
  page.on('request', (request) => { if (request.url() !== pathToFileURL(file).href) problems.push(`asks for ${request.url()}`); });
  await page.goto(pathToFileURL(file).href);
  await page.waitForSelector('html[data-ready]');
  await page.waitForSelector(chart);
  return {page, problems, close: () => context.close()};
}

/** How many colours a canvas shows: an empty one has at most one. */
const colours = (page, selector) => page.$eval(selector, (canvas) => {
  const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height), seen = new Set();
  for (let i = 0; i < data.length; i += 4) if (data[i + 3]) seen.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
  return seen.size;
});
const picture = (page, selector) => page.$eval(selector, (canvas) => canvas.toDataURL());

/** Points at the timeline's first row, at a share of its width. */
async function hover(page, share) {
  const canvas = await page.$('#timeline canvas');
  await canvas.scrollIntoViewIfNeeded();
  const {x, y, width} = await canvas.boundingBox();
  await page.mouse.move(x + width * share, y + 34);
}

for (const width of [1280, 390]) {
  for (const theme of ['light', 'dark']) {
    test(`at ${width} pixels in the ${theme} theme all charts are drawn, nothing is asked of the network, and axe finds nothing`, async () => {
      const {page, problems, close} = await open(small, {width, theme});
      for (const chart of ['#timeline canvas', '#memory canvas', '#loss canvas'])
        assert.ok(await colours(page, chart) > 5, `${chart} is empty`);
      assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), theme);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'the page is wider than the window');
      await page.screenshot({path: path.join(pictures, `report-${width}-${theme}.png`), fullPage: true});
      assert.deepEqual(problems, []);  // before axe, whose script is one that the page's policy does not know
      for (const details of await page.$$('details')) await details.evaluate((element) => { element.open = true; });
      await page.evaluate(axe);
      const {violations} = await page.evaluate(() => window.axe.run());
      assert.deepEqual(violations.map(({id, impact, nodes}) => `${impact}: ${id}: ${nodes.slice(0, 3).map(({html}) => html).join(' ')}`), []);
      await close();
    });
  }
}

test('the table has formula, simulated and measured, and a dash where there is none', async () => {
  const {page, close} = await open(small);
  const row = await page.$$eval('#triples tbody tr', (rows) => [...rows[3].cells].map((cell) => cell.textContent));
  assert.deepEqual(row, ['zero3', '3', '3.633', '–', '2', '2', '–', '6', '3.6078', '–']);
  await close();
});

test('what the scenario tells of a real run stands in the column measured, and beside the run with its error', async () => {
  const file = run('told', '--set', 'steps=2', '--set', 'schemes=[zero3]', '--set', 'numerics=off', '--set',
    'measured={source: somebody, zero3: {traffic: 3.7, step_seconds: 20ms}}');
  const {page, problems, close} = await open(file);
  const texts = (selector) => page.$$eval(selector, (cells) => cells.map((cell) => cell.textContent));
  assert.equal((await texts('#triples tbody td'))[2], '3.7');
  assert.deepEqual((await texts('#measured tbody tr:first-child > *')).slice(1), ['traffic', '3.633', '3.7', '−1.8 %']);
  assert.match(await page.textContent('#measured .origin'), /Measured: somebody/);
  await page.screenshot({path: path.join(pictures, 'measured.png')});
  assert.deepEqual(problems, []);
  await close();
});

test('hovering names the slice under the pointer, and the wheel zooms in and out', async () => {
  const {page, problems, close} = await open(small);
  await hover(page, 0.6);
  assert.match(await page.textContent('#timeline .tip'), /^(forward|backward), unit \d+: [\d.]+ (ms|µs), from /);
  const whole = await picture(page, '#timeline canvas');
  await page.mouse.wheel(0, -400);
  await page.waitForFunction((before) => document.querySelector('#timeline canvas').toDataURL() !== before, whole);
  for (let i = 0; i < 4; ++i) await page.mouse.wheel(0, 400);
  await page.mouse.move(0, 0);
  await page.waitForFunction((before) => document.querySelector('#timeline canvas').toDataURL() === before, whole);
  assert.deepEqual(problems, []);
  await close();
});

test('keys zoom, pan and find: a search for a unit goes from one of its slices to the next', async () => {
  const {page, close} = await open(small);
  await page.selectOption('#timeline select', 'zero3');
  await page.fill('#timeline input', 'gather 5');
  assert.match(await page.textContent('#timeline [role=status]'), /^2 slices found/);
  await page.focus('#timeline canvas');
  const whole = await picture(page, '#timeline canvas');
  await page.keyboard.press('n');
  const first = await page.textContent('#timeline [role=status]');
  assert.match(first, /^all_gather, unit 5: .* sent \(gather\)$/);
  await page.keyboard.press('n');
  assert.notEqual(await page.textContent('#timeline [role=status]'), first);
  await page.keyboard.press('+');
  const zoomed = await picture(page, '#timeline canvas');
  assert.notEqual(zoomed, whole);
  await page.keyboard.press('ArrowRight');
  assert.notEqual(await picture(page, '#timeline canvas'), zoomed);
  await page.click('#timeline details summary');
  await page.waitForSelector('#timeline details tbody tr');  // details tell a little later that they are open
  await close();
});

test('one choice of scheme holds in every section, and the theme switch draws the charts again', async () => {
  const {page, problems, close} = await open(small);
  await page.selectOption('#memory select', 'zero2');
  assert.equal(await page.inputValue('#timeline select'), 'zero2');
  assert.match(await page.textContent('#memory caption'), /^zero2: held at the peak/);
  const light = await picture(page, '#loss canvas');
  await page.click('#theme');
  assert.notEqual(await picture(page, '#loss canvas'), light);
  assert.deepEqual(problems, []);
  await close();
});

test('the sections of the page can be reached by keyboard alone', async () => {
  const {page, close} = await open(small);
  const reached = new Set();
  for (let i = 0; i < 80; ++i) {
    await page.keyboard.press('Tab');
    reached.add(await page.evaluate(() => document.activeElement.closest('section')?.id ?? document.activeElement.className));
  }
  for (const id of ['skip', 'comparison', 'time', 'timeline', 'memory', 'traffic', 'loss', 'scenario']) assert.ok(reached.has(id), `${id} is not reached`);
  await close();
});

test('a run of 64 ranks and 36 layers has a page of less than 10 MB that draws and answers', async () => {
  const file = run('large', '--set', 'model={preset: gpt2-large}', '--set', 'platform=dgx-h100-x16-fat-tree', '--set', 'world=64', '--set', 'numerics=off',
    '--set', 'steps=1', '--set', 'record.ranks=64', '--set', 'schemes=[zero3]', '--set', 'batch.micro=1', '--set', 'hazards=off');
  assert.ok(statSync(file).size < 10e6, `${statSync(file).size} bytes`);
  const begin = Date.now();
  const {page, problems, close} = await open(file);
  await page.focus('#timeline canvas');
  await page.keyboard.press('n');
  console.log(`${statSync(file).size} bytes, answers after ${Date.now() - begin} ms`);  // told, not asserted: clocks differ
  assert.match(await page.textContent('#timeline [role=status]'), /^load: /);
  assert.deepEqual(problems, []);
  await close();
});

test('a comparison of runs is a page, too', async () => {
  const other = path.dirname(run('one_stream', '--set', 'steps=4', '--set', 'streams=1')), file = path.join(folder, 'compare.html');
  execFileSync(SHARDSIM_PROGRAM, ['compare', path.dirname(small), other, '--html', file], {stdio: 'ignore'});
  const {page, problems, close} = await open(file, {chart: '#scheme-0 .bar'});
  assert.deepEqual(await page.$$eval('#changed tbody tr', (rows) => rows.map((row) => row.textContent)), ['streams31']);
  assert.match(await page.textContent('#scheme-3'), /exposed communication.*not hidden behind compute \+/s);
  await page.selectOption('#timeline select', 'zero3');  // both runs' streams, one above the other
  await page.click('#timeline details summary');
  await page.waitForSelector('#timeline details tbody tr');
  const streams = await page.$$eval('#timeline details tbody tr td:nth-child(3)', (cells) => [...new Set(cells.map((cell) => cell.textContent))]);
  assert.deepEqual(streams.sort(), ['A compute', 'A gather', 'A reduce', 'B compute']);
  await page.screenshot({path: path.join(pictures, 'compare.png'), fullPage: true});
  assert.deepEqual(problems, []);
  await page.evaluate(axe);
  assert.deepEqual((await page.evaluate(() => window.axe.run())).violations.map(({id}) => id), []);
  await close();
});

test('a prediction and what was measured are a page, their timelines one above the other', async () => {
  const measured = path.dirname(run('measured', '--backend', 'threads', '--set', 'steps=4')), file = path.join(folder, 'validate.html');
  execFileSync(SHARDSIM_PROGRAM, ['validate', path.dirname(small), measured, '--html', file], {stdio: 'ignore'});
  const {page, problems, close} = await open(file, {chart: '#scheme-0 .bar'});
  const rows = await page.$$eval('#agreement-3 tbody tr', (all) => all.map((row) => [...row.children].map((cell) => cell.textContent)));
  const sent = rows.filter(([part]) => part === 'sent per step');
  assert.ok(sent.length && sent.every(([, , predicted, measured, error]) => predicted === measured && error === '='), JSON.stringify(rows));
  await page.selectOption('#timeline select', 'zero3');
  await page.click('#timeline details summary');
  await page.waitForSelector('#timeline details tbody tr');
  const streams = await page.$$eval('#timeline details tbody tr td:nth-child(3)', (cells) => [...new Set(cells.map((cell) => cell.textContent))]);
  for (const stream of ['predicted compute', 'measured compute']) assert.ok(streams.includes(stream), streams.join(', '));  // of the first 200 slices
  await page.screenshot({path: path.join(pictures, 'validate.png'), fullPage: true});
  assert.deepEqual(problems, []);
  await page.evaluate(axe);
  assert.deepEqual((await page.evaluate(() => window.axe.run())).violations.map(({id}) => id), []);
  await close();
});

test('the page prints', async () => {
  const {page, problems, close} = await open(small, {theme: 'dark'});
  const pdf = await page.pdf({path: path.join(pictures, 'report.pdf'), format: 'A4', printBackground: false});
  assert.ok(pdf.length > 50_000 && existsSync(path.join(pictures, 'report.pdf')));
  assert.deepEqual(problems, []);
  await close();
});
