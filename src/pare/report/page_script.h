// What a page does beyond being read, where scripts run: tables sort by a click on a heading, plots say the values
// under the pointer, heat maps of two models are compared by a slider, and a button changes between light and dark.
// Without a script the page is whole, and printed it is the same.
#pragma once

#include <string>

namespace pare {

std::string page_script();
std::string script_css();  // of what the script adds

// A policy that lets a page run this one script, show what it holds, and reach nothing else: what a record smuggles in
// is dead, whatever it is.
std::string page_policy();

}  // namespace pare
