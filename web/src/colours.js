// Colours of bands, schemes and verbs: those of the course figures, from one file.
import palette from '../../tools/figures/palette.json';

export const bandColour = (band) => palette.bands[band];
export const verbColour = (verb) => palette.verbs[verb.endsWith('(control)') ? 'control' : verb] ?? palette.verbs.others;
export const timeColour = (kind) => palette.times[kind];

const others = new Map();  // schemes without a colour of their own take the next free one
export function schemeColour(scheme) {
  if (palette.schemes[scheme]) return palette.schemes[scheme];
  if (!others.has(scheme)) others.set(scheme, palette.schemes.others[others.size % palette.schemes.others.length]);
  return others.get(scheme);
}
