# A template, never installed: its syntax is checked by ruby alone. URL, version and sum are to be filled
# in, and `brew update-python-resources edgecron` writes the libraries.
class Edgecron < Formula
  include Language::Python::Virtualenv

  desc "Cron that you can see, trust and embed"
  homepage "@URL@"
  url "@URL@/edgecron-@VERSION@.tar.gz"
  sha256 "@SHA256@"
  license "MIT"

  depends_on "python@3.13"

  def install
    virtualenv_install_with_resources
    generate_completions_from_executable(bin/"edgecron", "completion")
    (man1/"edgecron.1").write Utils.safe_popen_read(bin/"edgecron", "help", "--man")
  end

  # `brew services start edgecron`: the engine of this user. What runs when it ends goes on, and the next
  # one takes it over.
  service do
    run [opt_bin/"edgecron", "daemon"]
    keep_alive true
    log_path var/"log/edgecron.log"
    error_log_path var/"log/edgecron.log"
  end

  test do
    ENV["EDGECRON_DB"] = testpath/"e.db"
    system bin/"edgecron", "add", "hello", "--every", "1h", "--", "true"
    assert_match "hello", shell_output("#{bin}/edgecron list")
  end
end
