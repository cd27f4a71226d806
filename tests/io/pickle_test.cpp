#include "pare/io/pickle.h"

#include <chrono>

#include "io/io_support.h"

namespace pare {
namespace {

using namespace std::string_literals;

PickleDocument unpickle_text(const std::string& pickle) {
  const ByteSource source = ByteSource::copy(pickle, "test.pkl");
  ByteReader reader(source);
  return unpickle(reader);
}

template <typename T>
T root_of(const std::string& pickle) {
  const PickleDocument document = unpickle_text(pickle);
  EXPECT_TRUE(std::holds_alternative<T>(document[document.root])) << kind_of(document[document.root]);
  return std::get<T>(document[document.root]);
}

void expect_pickle_error(ErrorKind kind, std::string_view part, const std::string& pickle) {
  expect_error(kind, part, [&] { unpickle_text(pickle); });
}

TEST(Pickle, ReadsScalarsOfEveryProtocol) {
  EXPECT_EQ(root_of<int64_t>("I-12\n."), -12);
  EXPECT_EQ(root_of<int64_t>("L123L\n."), 123);
  EXPECT_EQ(root_of<bool>("I01\n."), true);
  EXPECT_EQ(root_of<double>("F1.5e3\n."), 1500);
  EXPECT_EQ(root_of<int64_t>("\x80\x02K\xff."), 255);
  EXPECT_EQ(root_of<int64_t>("M\x01\x02."s), 513);
  EXPECT_EQ(root_of<int64_t>("J\xfe\xff\xff\xff."), -2);
  EXPECT_EQ(root_of<int64_t>("\x8a\x02\x00\xff."s), -256);
  EXPECT_EQ(root_of<int64_t>("\x8a\x00."s), 0);
  EXPECT_EQ(root_of<int64_t>("\x8b\x01\x00\x00\x00\x7f."s), 127);
  EXPECT_EQ(root_of<double>("G\x3f\xf8\x00\x00\x00\x00\x00\x00."s), 1.5);
  EXPECT_EQ(root_of<std::string>("S'a\\x41\\n\\''\n."), "aA\n'");
  EXPECT_EQ(root_of<std::string>("V\\u00e9\xe9\n."), "\u00e9\u00e9");
  EXPECT_EQ(root_of<std::string>("X\x02\x00\x00\x00hi."s), "hi");
  EXPECT_EQ(root_of<std::string>("\x80\x04\x95\x04\x00\x00\x00\x00\x00\x00\x00\x8c\x02hi\x94."s), "hi");
  EXPECT_EQ(root_of<PickleBytes>("C\x02\xff\x00."s).bytes, "\xff\x00"s);
  EXPECT_EQ(root_of<PickleBytes>("U\x01\xff.").bytes, "\xff");
}

TEST(Pickle, ReadsContainersAndTheMemo) {
  const PickleDocument document = unpickle_text("}q\0(K\1(K\2K\3lq\1K\4h\1uK\5(K\6tK\7\x86s."s);
  const PickleDict* dict = document.dict(document.root);
  ASSERT_NE(dict, nullptr);
  ASSERT_EQ(dict->items.size(), 3u);
  EXPECT_EQ(dict->items[0].second, dict->items[1].second);
  EXPECT_EQ(document.get<PickleList>(dict->items[0].second)->items.size(), 2u);
  EXPECT_EQ(document.get<PickleTuple>(dict->items[2].second)->items.size(), 2u);
  EXPECT_EQ(root_of<PickleDict>("(K\1K\2d.").items.size(), 1u);
  EXPECT_EQ(root_of<PickleList>("\x8f(K\1K\2\x90.").items.size(), 2u);
}

TEST(Pickle, InterpretsTheAllowedGlobals) {
  EXPECT_EQ(root_of<double>("cnumpy.core.multiarray\nscalar\n(cnumpy\ndtype\n(S'f8'\nI0\nI1\ntR(I3\nS'<'\ntb"
                            "C\x08\x00\x00\x00\x00\x00\x00\xf8\x3ftR."s),
            1.5);
  EXPECT_EQ(root_of<int64_t>("cnumpy.core.multiarray\nscalar\n(cnumpy\ndtype\n(S'i2'\ntRC\x02\xfe\xfftR."), -2);
  EXPECT_EQ(root_of<PickleBytes>("c_codecs\nencode\n(V\xe0\nVlatin1\ntR.").bytes, "\xe0");
  EXPECT_EQ(root_of<std::string>("ctorch\ndevice\n(Vcuda\nI1\ntR."), "cuda:1");
  EXPECT_EQ(root_of<PickleDict>("ccollections\nOrderedDict\n((lp0\n(I1\nI2\nlatR.").items.size(), 1u);
  EXPECT_EQ(root_of<PickleTuple>("\x8c\x05torch\x8c\x04Size\x93K\1K\2\x86\x85R.").items.size(), 2u);
  EXPECT_EQ(root_of<PickleDict>("(icollections\nOrderedDict\n.").items.size(), 0u);
  EXPECT_EQ(root_of<PickleDict>("(ccollections\nOrderedDict\no.").items.size(), 0u);
}

TEST(Pickle, RunsNothing) {
  for (const std::string name : {"os.system", "posix.system", "nt.system", "builtins.eval", "__builtin__.exec",
                                 "builtins.getattr", "subprocess.Popen", "torch.storage._load_from_bytes",
                                 "torch.hub.load", "operator.attrgetter", "collections.OrderedDict.__init__"}) {
    const size_t dot = name.rfind('.');
    const std::string module = name.substr(0, dot), function = name.substr(dot + 1);
    const std::string call = "(S'touch /tmp/owned'\ntR.";
    expect_pickle_error(ErrorKind::unsupported, name + ",", "c" + module + "\n" + function + "\n" + call);
    expect_pickle_error(ErrorKind::unsupported, "never run", "V" + module + "\nV" + function + "\n\x93" + call);
    expect_pickle_error(ErrorKind::unsupported, name + ",", "(S'x'\ni" + module + "\n" + function + "\n.");
  }
  expect_pickle_error(ErrorKind::unsupported, "sparse", "ctorch._utils\n_rebuild_sparse_tensor\n.");
  expect_pickle_error(ErrorKind::unsupported, "quantized", "ctorch\nQInt8Storage\n.");
  expect_pickle_error(ErrorKind::unsupported, "state_dict()", "ctorch.nn.modules.conv\nConv2d\n.");
  expect_pickle_error(ErrorKind::unsupported, "a\\x1b[2Jb", "ca\x1b[2Jb\nc\n.");
  expect_pickle_error(ErrorKind::format, "not called", "ctorch\nfloat32\n)R.");
  expect_pickle_error(ErrorKind::format, "0x82", "\x82\x01.");
}

TEST(Pickle, RefusesCyclesAndDeepNesting) {
  expect_pickle_error(ErrorKind::format, "holds itself", "]q\0h\0a."s);
  expect_pickle_error(ErrorKind::format, "holds itself", "}q\0K\1(h\0tq\1s0h\0."s + "");
  expect_pickle_error(ErrorKind::format, "holds itself", "]q\1]q\2h\1a0h\2a."s);
  const auto nested = [](size_t depth) { return std::string(depth, ']') + std::string(depth - 1, 'a') + "."; };
  EXPECT_NO_THROW(unpickle_text(nested(200)));
  expect_pickle_error(ErrorKind::format, "200 deep", nested(201));
  expect_pickle_error(ErrorKind::format, "200 deep", nested(300000));
  expect_pickle_error(
      ErrorKind::format, "200 deep", "]q\0"s + [] {
        std::string chain;  // each list is put into the next by the memo, so no opcode sees more than one level
        for (int i = 0; i < 250; ++i) chain += "]h\0aq\0"s;
        return chain;
      }() + ".");
}

TEST(Pickle, SharedValuesCostNothing) {
  std::string laughs = "]q\0"s;
  for (int i = 0; i < 100; ++i) laughs += "](h\0h\0h\0h\0h\0h\0h\0h\0h\0h\0eq\0"s;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_NO_THROW(unpickle_text(laughs + "."));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(Pickle, RefusesHugeClaims) {
  for (const std::string& claim :
       {"X\xff\xff\xff\xff"s, "\x8d\xff\xff\xff\xff\xff\xff\xff\xff"s, "\x8e\xff\xff\xff\xff\xff\xff\xff\x7f"s,
        "B\xff\xff\xff\x7f"s, "T\xff\xff\xff\x7f"s, "\x96\xff\xff\xff\xff\xff\xff\xff\xff"s})
    expect_pickle_error(ErrorKind::format, "ends inside", claim + "abc.");
  expect_pickle_error(ErrorKind::format, "at most 255", "\x8b\xff\xff\xff\x7f.");
  expect_pickle_error(ErrorKind::format, "memo", "h\x07.");
  EXPECT_NO_THROW(unpickle_text("Nr\xff\xff\xff\xff."));
  expect_pickle_error(ErrorKind::format, "more memory", std::string(2000000, ']') + ".");
  expect_pickle_error(ErrorKind::format, "more memory", std::string(20000000, '('));
  // A dict of 50,000 pairs, made again and again from one list.
  std::string again = "ccollections\nOrderedDict\nq\0]q\1("s;
  for (int i = 0; i < 50000; ++i) again += "](NNe";
  again += "e0";
  for (int i = 0; i < 100000; ++i) again += "h\0h\1\x85R0"s;
  expect_pickle_error(ErrorKind::format, "more memory", again + "N.");
}

TEST(Pickle, RefusesMisuse) {
  for (const std::string& pickle : {"."s,
                                    "0."s,
                                    "t."s,
                                    "a."s,
                                    "Na."s,
                                    "NNs."s,
                                    "}(Nu."s,
                                    "R."s,
                                    "NNR."s,
                                    "b."s,
                                    "NNb."s,
                                    "Q."s,
                                    "NQ."s,
                                    "(Na."s,
                                    "\x86."s,
                                    "(N\x86."s,
                                    "(o."s,
                                    "\x93."s,
                                    "Ix\n."s,
                                    "Fx\n."s,
                                    "Sx\n."s,
                                    "V\\u12\n."s,
                                    "V\\ud800\n."s,
                                    "X\x01\x00\x00\x00\xff."s,
                                    "p1\n."s,
                                    "gx\n."s,
                                    "\x97."s,
                                    "P1\n."s,
                                    "ctorch._utils\n_rebuild_tensor\n(tR."s,
                                    "(S'storage'\ntQ."s,
                                    "N\x86R."s})
    EXPECT_THROW(unpickle_text(pickle), Error) << pickle;
  expect_pickle_error(ErrorKind::unsupported, "protocol 6", "\x80\x06N.");
  expect_pickle_error(ErrorKind::unsupported, "whole module", "(S'module'\nNNNtQ.");
}

}  // namespace
}  // namespace pare
