# A formula for a tap of our own. The libraries are those of packaging/locks/runtime.txt, by their hashes.
# ruby and rubocop have read it, and its commands of pip were run; Homebrew itself never installed it.
class Edgecron < Formula
  include Language::Python::Virtualenv

  desc "Cron that you can see, trust and embed"
  homepage "@SOURCE@"
  url "@SDIST_URL@"
  sha256 "@SDIST_SHA256@"
  license "MIT"

  depends_on "python@3.13"

  def install
    virtualenv_create(libexec, "python3.13", without_pip: false)
    pip = [libexec/"bin/python", "-m", "pip", "install", "--no-cache-dir"]
    system(*pip, "--require-hashes", "-r", "packaging/locks/runtime.txt")
    system(*pip, "--no-deps", buildpath)
    bin.install_symlink libexec/"bin/edgecron"
    generate_completions_from_executable(bin/"edgecron", "completion")
    (man1/"edgecron.1").write Utils.safe_popen_read(bin/"edgecron", "help", "--man")
  end

  # `brew services start edgecron`: the engine of this user. Running jobs continue when it stops.
  service do
    run [opt_bin/"edgecron", "daemon"]
    keep_alive true
    log_path var/"log/edgecron.log"
    error_log_path var/"log/edgecron.log"
  end

  test do
    ENV["EDGECRON_DB"] = testpath/"edgecron.db"
    system bin/"edgecron", "add", "hello", "--every", "1h", "--", "true"
    assert_match "hello", shell_output("#{bin}/edgecron list")
  end
end
