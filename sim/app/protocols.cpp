// Protocols: reading tables/protocols.yaml.
#include "app/protocols.h"

#include "app/fields.h"
#include "app/scenario_parts.h"
#include "core/error.h"

namespace shardsim {
namespace {

std::vector<std::string> texts_of(const YamlNode& node, const char* example) {
  std::vector<std::string> texts;
  for (const YamlNode& item : list_of(node, example)) texts.push_back(text_of(item));
  return texts;
}

Protocol protocol_of(const YamlNode& node) {
  std::vector<std::string> unmentioned;
  const Fields fields(node, {"name", "set", "set_of_group", "calibrate_per", "fit", "max_mape"}, unmentioned);
  Protocol protocol;
  protocol.name = text_of(fields.need("name", "name: nothing fitted"));
  if (const YamlNode* set = fields.find("set")) protocol.overrides = texts_of(*set, "[prices.contention=3]");
  if (const YamlNode* groups = fields.find("set_of_group")) {
    if (groups->kind != YamlNode::Kind::map)
      refuse(*groups, "is " + in_words(*groups) + ", but a map from groups to lists is expected");
    for (const YamlNode& group : groups->children)
      protocol.of_group.emplace_back(group.name, texts_of(group, "[prices.gemm_efficiency=0.7]"));
  }
  if (const YamlNode* per = fields.find("calibrate_per"))
    protocol.calibrate_per = choice_of(*per, {"table", "group"}) == 0 ? Protocol::Per::table : Protocol::Per::group;
  if (const YamlNode* fit = fields.find("fit")) {
    protocol.fit.clear();
    for (const std::string& name : texts_of(*fit, "[gemm_efficiency]")) protocol.fit.push_back(constant_of(name));
  }
  if (const YamlNode* most = fields.find("max_mape")) protocol.max_mape = share_of(*most);
  return protocol;
}

}  // namespace

std::vector<ShippedTable> read_protocols(const std::filesystem::path& file) {
  const YamlNode root = read_yaml(file);
  std::vector<std::string> unmentioned;
  const Fields fields(root, {"tables"}, unmentioned);
  std::vector<ShippedTable> tables;
  for (const YamlNode& node : list_of(fields.need("tables", "tables: [{table: NAME.csv, protocols: [...]}]"), "[{table: ...}]")) {
    const Fields table(node, {"table", "protocols"}, unmentioned);
    tables.push_back({file.parent_path() / text_of(table.need("table", "table: NAME.csv")), {}});
    for (const YamlNode& each : list_of(table.need("protocols", "protocols: [{name: ...}]"), "[{name: ...}]"))
      tables.back().protocols.push_back(protocol_of(each));
  }
  return tables;
}

std::filesystem::path tables_folder() { return platforms_folder().parent_path() / "tables"; }

}  // namespace shardsim
