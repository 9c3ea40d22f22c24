// The page: reads the data that lie in it, of one run or of a comparison, and hands each section what it shows.
import {append, element} from './element.js';
import {count} from './format.js';
import {comparison} from './comparison.js';
import {compareSections} from './compare.js';
import {timeSection} from './time.js';
import {timelineSection} from './timeline_section.js';
import {memorySection} from './memory.js';
import {trafficSection} from './traffic.js';
import {lossSection} from './loss.js';
import {sourceSections} from './sources.js';
import {themeSwitch} from './theme.js';

const data = JSON.parse(document.getElementById('data').textContent);
const content = document.getElementById('content'), jump = element('nav', {'aria-label': 'Sections of this page'});

function section(id, title, ...parts) {
  append(jump, element('a', {href: `#${id}`}, title));
  append(content, element('section', {id, 'aria-labelledby': `${id}-title`}, element('h2', {id: `${id}-title`}, title), ...parts));
}

function title(heading, subtitle) {
  document.title = `${heading}: shardsim`;
  append(document.getElementById('head'), element('div', {}, element('h1', {}, heading), element('p', {class: 'subtitle'}, subtitle)), themeSwitch());
}

const plural = (number, word) => `${count(number)} ${word}${number === 1 ? '' : 's'}`;

function showRun({summary, schemes}) {
  const first = summary.results[0];
  title(summary.scenario, `${plural(first.world, 'rank')} (${first.gpu}), ${count(first.parameters)} parameters in ${plural(first.units, 'unit')}, ` +
    `${plural(first.steps, 'step')}, ${first.backend === 'simgrid' ? `simulated (${summary.fabric})` : `measured on ${first.backend}`}`);
  if (summary.notes?.length)
    section('notes', 'Notes and warnings', element('ul', {class: 'notes'}, ...summary.notes.map((note) => element('li', {}, note))));
  section('comparison', 'The schemes side by side', comparison(summary));
  section('time', 'Where a step’s time goes', timeSection(summary, schemes));
  section('timeline', 'Timeline of the last step', timelineSection(schemes));
  section('memory', 'Memory over a step', memorySection(summary, schemes));
  section('traffic', 'What moves', trafficSection(summary, schemes));
  section('loss', 'Loss', lossSection(summary, schemes));
  for (const {id, title: name, part} of sourceSections(data)) section(id, name, part);
}

content.textContent = '';
append(content, jump);
if (data.comparison) {
  title(`${plural(data.comparison.runs.length, 'run')} side by side`, 'each beside the first');
  compareSections(data, section);
} else {
  showRun(data);
}
document.documentElement.dataset.ready = 'yes';
