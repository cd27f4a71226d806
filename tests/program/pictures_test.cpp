// One picture, one preprocessing: what `run`, `explain` and `eval` feed a network is the same to the bit.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "command.h"
#include "datasets/bytes.h"
#include "pare/data/data_options.h"
#include "pare/data/image.h"
#include "pare/data/loader.h"
#include "pare/io/npy.h"
#include "pare/io/onnx/write.h"
#include "pare/workflow/explain.h"

namespace pare::cli {
namespace {

// Its output is its input, so that what it is shown can be read.
Graph mirror(int64_t channels, int64_t height, int64_t width) {
  Graph graph{.name = "mirror"};
  graph.inputs = {{.name = "x", .dtype = at::kFloat}};
  graph.inputs[0].dims = {{-1, "N"}, {channels}, {height}, {width}};
  graph.outputs = {{.name = "y", .dtype = at::kFloat}};
  graph.tensors["zero"] = at::zeros({1}, at::kFloat);
  graph.nodes = {{.name = "add", .op = "Add", .inputs = {"x", "zero"}, .outputs = {"y"}}};
  verify(graph);
  return graph;
}

at::Tensor shown_by_run(const TemporaryDirectory& place, const std::vector<std::string>& options) {
  std::vector<std::string> words = {"pare",
                                    "run",
                                    (place.path / "mirror.onnx").string(),
                                    "--input",
                                    (place.path / "data/a/1.png").string(),
                                    "-o",
                                    (place.path / "out").string(),
                                    "--force",
                                    "-q"};
  words.insert(words.end(), options.begin(), options.end());
  std::vector<char*> raw;
  for (auto& word : words) raw.push_back(word.data());
  testing::internal::CaptureStdout();
  const int status = run_cli(static_cast<int>(raw.size()), raw.data());
  testing::internal::GetCapturedStdout();
  EXPECT_EQ(status, 0);
  return read_npy(place.path / "out" / "y.npy");
}

TEST(Pictures, AreShownAlikeByRunExplainAndFolders) {
  const TemporaryDirectory place("shown");
  for (const int64_t stored : {1, 3})
    for (const int64_t channels : {1, 3})
      for (const auto& [height, width] : {std::pair<int64_t, int64_t>{24, 24}, {20, 36}, {130, 130}}) {
        place.write("data/a/1.png", encode_png(at::randint(256, {stored, 47, 71}, at::TensorOptions(at::kByte))));
        Graph model = mirror(channels, height, width);
        for (const char* in_file : {"", "stretch", "crop", "imagenet"})
          for (const char* asked : {"", "stretch", "imagenet"}) {
            model.metadata.clear();
            if (*in_file != '\0') model.metadata["pare.preprocess"] = in_file;
            write_onnx(model, place.path / "mirror.onnx", {});
            const DataChoice choice{.data = "folder:" + (place.path / "data").string(), .preprocess = asked};
            const Dataset folder = choice.load(model);
            const at::Tensor by_folder = make_batch(folder, 0, 1).images;
            const at::Tensor by_explain =
                read_explain_input({(place.path / "data/a/1.png").string()}, model, choice).read(0, 1).images;
            const at::Tensor by_run = shown_by_run(
                place, *asked == '\0' ? std::vector<std::string>{} : std::vector<std::string>{"--preprocess", asked});
            EXPECT_TRUE(at::equal(by_folder, by_explain))
                << channels << " " << height << " " << in_file << " " << asked;
            EXPECT_TRUE(at::equal(by_folder, by_run)) << channels << " " << height << " " << in_file << " " << asked;
            const std::string wanted = *asked != '\0'                   ? asked
                                       : *in_file != '\0'               ? in_file
                                       : height >= 128 && channels == 3 ? "imagenet"
                                                                        : "crop";
            EXPECT_EQ(folder.preprocess, wanted);
          }
      }
}

TEST(Pictures, AGuessAndAContradictionAreNoted) {
  Graph model = mirror(3, 224, 224);
  const DataChoice guessed{.data = "folder:x"};
  ASSERT_EQ(guessed.picture_notes(model).size(), 2u);
  EXPECT_NE(guessed.picture_notes(model)[0].find("`preprocess` imagenet is a guess"), std::string::npos);
  model.metadata = {{"pare.preprocess", "crop"}, {"pare.mean", "[0.5]"}};
  EXPECT_TRUE(guessed.picture_notes(model).empty());
  const auto notes = DataChoice{.data = "folder:x", .preprocess = "stretch"}.picture_notes(model);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("learned pictures fitted by crop; here they are by stretch"), std::string::npos);
  model.metadata["pare.preprocess"] = "nonsense";  // files may say anything
  EXPECT_EQ(stored_preprocess(model), "");
}

TEST(Pictures, OfAModelThatTakesAnySizeStayAsTheyAre) {
  const TemporaryDirectory place("open");
  const at::Tensor picture = at::randint(256, {3, 200, 300}, at::TensorOptions(at::kByte));
  place.write("1.png", encode_png(picture));
  Graph model = mirror(3, 0, 0);
  model.inputs[0].dims = {{-1, "N"}, {3}, {-1, "H"}, {-1, "W"}};
  const std::string path = (place.path / "1.png").string();
  EXPECT_EQ(read_explain_input({path}, model).read(0, 1).images.sizes(), at::IntArrayRef({1, 3, 200, 300}));
  EXPECT_THROW(read_explain_input({path}, model, {.preprocess = "crop"}), Error);
  EXPECT_EQ(read_explain_input({path}, model, {.size = 64, .preprocess = "crop"}).image,
            (std::vector<int64_t>{3, 64, 64}));
}

}  // namespace
}  // namespace pare::cli
