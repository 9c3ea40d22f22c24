// The report of a run: reads the data that lie in the page, and hands each section what it shows.
import {append, element} from './element.js';
import {count} from './format.js';
import {comparison} from './comparison.js';
import {timeSection} from './time.js';
import {timelineSection} from './timeline_section.js';
import {memorySection} from './memory.js';
import {trafficSection} from './traffic.js';
import {lossSection} from './loss.js';
import {sourceSections} from './sources.js';
import {themeSwitch} from './theme.js';

const data = JSON.parse(document.getElementById('data').textContent);
const {summary, schemes} = data;
const first = summary.results[0];

document.title = `${summary.scenario}: shardsim report`;
append(document.getElementById('head'),
  element('div', {class: 'title'},
    element('h1', {}, summary.scenario),
    element('p', {class: 'subtitle'},
      `${count(first.world)} rank${first.world === 1 ? '' : 's'} (${first.gpu}), ${count(first.parameters)} parameters in ` +
      `${count(first.units)} unit${first.units === 1 ? '' : 's'}, ${count(first.steps)} step${first.steps === 1 ? '' : 's'}, ` +
      (first.backend === 'simgrid' ? `simulated (${summary.fabric})` : `measured on ${first.backend}`))),
  themeSwitch());

const content = document.getElementById('content');
content.textContent = '';
const jump = [];
function section(id, title, ...parts) {
  jump.push(element('a', {href: `#${id}`}, title));
  append(content, element('section', {id, 'aria-labelledby': `${id}-title`}, element('h2', {id: `${id}-title`}, title), ...parts));
}

const nav = element('nav', {'aria-label': 'Sections of this page'});
append(content, nav);
if (summary.notes?.length)
  section('notes', 'Notes and warnings', element('ul', {class: 'notes'}, ...summary.notes.map((note) => element('li', {}, note))));
section('comparison', 'The schemes side by side', comparison(summary));
section('time', 'Where a step’s time goes', timeSection(summary, schemes));
section('timeline', 'Timeline of the last step', timelineSection(schemes));
section('memory', 'Memory over a step', memorySection(summary, schemes));
section('traffic', 'What moves', trafficSection(summary, schemes));
section('loss', 'Loss', lossSection(summary, schemes));
for (const {id, title, part} of sourceSections(data)) section(id, title, part);
append(nav, ...jump);
document.documentElement.dataset.ready = 'yes';

