// YAML from outside: files that are no scenario, and whatever would swallow a line or hide in one.
#include <doctest/doctest.h>

#include "app/scenarios.h"

using namespace shardsim;
using test::scenario_text;

TEST_CASE("quotes that close, quotes in quotes, anchors and texts that say they have several lines are taken") {
  const test::ScenarioFolder folder;
  for (const char* line : {"name: 'it''s: # mine'", "name: \"a \\\" b\"", "name: &n 'one'", "name: it's mine", "name: \"\\u00e9\"",
                           "batch:\n  micro: &m 2\n  accumulation: *m", "name: 1e3", "units: 'layer'", "name: |\n  of one line"})
    CHECK(folder.refusal(scenario_text(std::string(line) + "\n")) == "accepted");
  CHECK(folder.read("\xef\xbb\xbf" + scenario_text("name: 'one'\n")).name == "one");
  CHECK(folder.read(scenario_text("name: >\n  two\n  lines\n")).name == "two lines");
}

TEST_CASE("a file that is no scenario at all is refused") {
  const test::ScenarioFolder folder;
  struct Case {
    std::string text;
    const char* message;
  };
  const Case cases[] = {
      {"", "s.yaml"},
      {"# only a comment\n", "s.yaml:1: is empty; a scenario is a YAML map"},
      {"- dp\n- zero1\n", "s.yaml:1: a scenario is a map of keys and values; this is a list"},
      {"dp\n", "s.yaml:1: a scenario is a map of keys and values; this is 'dp'"},
      {scenario_text("---\n") + scenario_text(), "s.yaml:6: a second YAML document begins here; a scenario file holds one"},
      {scenario_text("batch:\n\tmicro: 4\n"), "s.yaml:6: is not YAML: "},
      {scenario_text("batch: {micro: 4\n"), "s.yaml:6: is not YAML: "},
      {scenario_text("name: \xff\xfe\n"), "s.yaml:5: is not UTF-8 text; save the file as UTF-8"},
      {scenario_text("name: \xc3\n"), "s.yaml:5: is not UTF-8 text"},
      {scenario_text(std::string("name: a\0b\n", 10)), "s.yaml:5: has a NUL, so it is not text; save the file as UTF-8"},
      {scenario_text("batch: &loop {micro: *loop}\n"), "s.yaml:5: "},
      {scenario_text("batch: *nowhere\n"), "s.yaml:5: is not YAML: "},
      {scenario_text("? [a, b]\n: 1\n"), "s.yaml:5: has a key that is not a plain name"},
      {scenario_text("<<: {world: 4}\n"), "s.yaml:5: <<: unknown key"},
      {scenario_text("name: " + std::string(100'000, 'x') + "\nbatch: " + std::string(100'000, 'y') + "\n"),
       "s.yaml:6: batch: is 'yyy"},
      {std::string(2000, '['), "s.yaml:1: is nested too deeply to be a scenario; are brackets missing their ends?"},
      {scenario_text("name: 'my run\nsteps: 100\npatience: '1s'\n"), "s.yaml:"},
      {scenario_text("name: |\n  two\n  lines\n"), "s.yaml:5: name: 'two lines ' has a line break or another control character"},
      {scenario_text("name: 'my run\nsteps: 100\nlatency: platform'\n"),
       "s.yaml:5: name: ''my run' has a quote that is not closed on its line; close it"},
      {scenario_text("name: \"my \\\" run\nsteps: 100\"\n"), "s.yaml:5: name: '\"my \\\" run' has a quote that is not closed"},
      {scenario_text("name: 'it''s\nsteps: 100\nlatency: platform'\n"), "s.yaml:5: name: ''it''s' has a quote that is not closed"},
      {scenario_text("expect: {'dp\n': {}}\n"), "s.yaml:5: is not YAML: "},
      {scenario_text("name: my run\n  steps 100\n"),
       "s.yaml:5: name: 'my run steps 100' goes on over several lines; is a colon missing"},
      {scenario_text("batch: {micro: 4,\n accumulation: 2\n 3}\n"),
       "s.yaml:6: batch.accumulation: '2 3' goes on over several lines"},
      {scenario_text("name: \"a\\0b\"\n"), "s.yaml:5: name: 'a b' has a line break or another control character; remove it"},
      {scenario_text("name: a\x1b[31mb\n"), "s.yaml:5: "},
      {scenario_text("\"a\\x07\": 1\n"), "s.yaml:5: 'a ' has a line break or another control character; remove it"},
      {scenario_text("name: \"a\\x9bb\"\n"), "s.yaml:5: name: 'a\u009bb' has a line break or another control character"},
      {scenario_text("steps: !!str 2\n"),
       "s.yaml:5: steps: has the tag 'tag:yaml.org,2002:str'; what a value is follows from its key"},
      {scenario_text("steps: !foo 2\n"), "s.yaml:5: steps: has the tag '!foo'"},
      {scenario_text("batch: !!map {micro: 2}\n"), "s.yaml:5: batch: has the tag 'tag:yaml.org,2002:map'"},
      {scenario_text("steps: 010\n"),
       "s.yaml:5: steps: '010' begins with a zero, which may mean an octal number; write it without"},
      {scenario_text("optimizer: {lr: 1e308}\n"),
       "s.yaml:5: optimizer.lr: '1e308' is out of range; a 32-bit number is at most 3.4e38"},
      {scenario_text("name: one\n? {a: b}\n: 1\n"), "s.yaml:6: has a key that is not a plain name"},
  };
  for (const Case& each : cases) {
    INFO(each.text.substr(0, 200));
    const std::string message = folder.refusal(each.text);
    CHECK_MESSAGE(message.find(each.message) == 0, message.substr(0, 300));
    CHECK(message.find('\n') == std::string::npos);
    CHECK(message.size() < 700);
  }
  CHECK_THROWS_WITH(read_scenario("/no/such.yaml", {}, test::named_schemes()),
                    "/no/such.yaml: there is no such file; check the path");
  CHECK_THROWS_AS(read_scenario(folder.folder().path(), {}, test::named_schemes()), ScenarioError);
}
