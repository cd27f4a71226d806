// Inside the VOC reader: the events of a small XML document. Enough of XML for annotations: elements, attributes
// (passed over), text with the five named and the numeric entities, CDATA, comments, processing instructions and a
// document type without a body. Whatever else there is, or tags that do not match, throw Error{format}.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace pare {

// Calls `element` at the end of every element, innermost first, with the names from the root to it and its own text
// (that of its children left out). Nesting deeper than 64 and text over a megabyte are refused.
void parse_xml(std::string_view xml, std::string_view where,
               const std::function<void(const std::vector<std::string>& path, const std::string& text)>& element);

}  // namespace pare
